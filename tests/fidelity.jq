# From the simulator's and the load generator's results to a table and a verdict.
def n($digits): if . == null then "" else . * pow(10; $digits) | round / pow(10; $digits) | tostring end;
def off($sim; $live): if $sim > 0 then 100 * ($live - $sim) / $sim else 0 end;
def row($name; $sim; $live; $digits): "| \($name) | \($sim | n($digits)) | \($live | n($digits)) | \(off($sim; $live) | n(1)) % |";
def verdict($name; $ok): "- \($name): \(if $ok then "holds" else "does not hold" end)";
$sim[0] as $s | $live[0] as $l |
[ "| | simulated | served | off |",
  "|---|--:|--:|--:|",
  row("attainment, %"; 100 * $s.attainment; 100 * $l.attainment; 2),
  row("TTFT mean, ms"; $s.ttft_ms.mean; $l.mean_ttft_ms; 0),
  row("TTFT p50, ms"; $s.ttft_ms.p50; $l.p50_ttft_ms; 0),
  row("TTFT p90, ms"; $s.ttft_ms.p90; $l.p90_ttft_ms; 0),
  row("TTFT p99, ms"; $s.ttft_ms.p99; $l.p99_ttft_ms; 0),
  row("TBT mean, ms"; $s.tbt_ms.mean; $l.mean_itl_ms; 1),
  row("TBT p50, ms"; $s.tbt_ms.p50; $l.p50_itl_ms; 1),
  row("TBT p99, ms"; $s.tbt_ms.p99; $l.p99_itl_ms; 1),
  row("switches a minute and GPU"; $s.switches_per_minute; $switches * 60 / $devices; 1),
  "",
  "Served: \($l.completed) of \($l.requests) requests completed, \($l.failed) failed; scheduler and gateway used "
    + "\($core | n(2)) cores, all processes of `serve` together \($all | n(2)); the generator's dispatch delay was "
    + "\($l.p99_dispatch_delay_ms | n(1)) ms (p99).",
  "",
  verdict("attainment within 1 point"; ($s.attainment - $l.attainment | fabs) <= .01),
  verdict("p50 TTFT within 10 %"; (off($s.ttft_ms.p50; $l.p50_ttft_ms) | fabs) <= 10),
  verdict("p99 TTFT within 10 %"; (off($s.ttft_ms.p99; $l.p99_ttft_ms) | fabs) <= 10),
  verdict("scheduler and gateway under half a core"; $core < .5),
  verdict("no request failed"; $l.failed == 0)
] | .[]
