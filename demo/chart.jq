# The demo's comparison as an SVG: attainment by model, and latencies, one shared device beside dedicated ones.
# Input: {shared, dedicated}: two results of `briareus load --result-filename`.
def esc: tostring | gsub("&"; "&amp;") | gsub("<"; "&lt;");
def num(d): (. * pow(10; d) | round) / pow(10; d);
def rows(s; d): [
  (range(0; s.models | length) as $i | {name: "\(s.models[$i].model): attainment, %", max: 100,
    s: (100 * s.models[$i].attainment), d: (100 * d.models[$i].attainment)}),
  {name: "TTFT p50, ms", s: s.median_ttft_scheduled_ms, d: d.median_ttft_scheduled_ms},
  {name: "TTFT p99, ms", s: s.p99_ttft_scheduled_ms, d: d.p99_ttft_scheduled_ms},
  {name: "TBT p99, ms", s: s.p99_itl_ms, d: d.p99_itl_ms},
  {name: "devices", s: 1, d: 3, max: 3}];
def bar(y; value; max; colour): (420 * value / ([max, 0.001] | max)) as $w |
  "<rect x=\"220\" y=\"\(y)\" width=\"\($w | num(1))\" height=\"12\" fill=\"\(colour)\"/>"
  + "<text x=\"\($w + 226 | num(1))\" y=\"\(y + 10)\">\(value | num(1))</text>";
.shared as $s | .dedicated as $d | rows($s; $d) as $rows | (60 + 38 * ($rows | length)) as $height |
"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"\($height)\" font-family=\"sans-serif\" font-size=\"12\">",
"<rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
"<text x=\"12\" y=\"22\" font-size=\"15\">The same load: three models on one device, and on three</text>",
"<rect x=\"470\" y=\"12\" width=\"12\" height=\"12\" fill=\"#0b6e99\"/><text x=\"487\" y=\"22\">one device</text>",
"<rect x=\"570\" y=\"12\" width=\"12\" height=\"12\" fill=\"#c9a227\"/><text x=\"587\" y=\"22\">three dedicated</text>",
($rows | to_entries[] | (44 + 38 * .key) as $y | .value as $r | ($r.max // ([$r.s, $r.d] | max)) as $max |
  "<text x=\"12\" y=\"\($y + 17)\">\($r.name | esc)</text>", bar($y; $r.s; $max; "#0b6e99"), bar($y + 15; $r.d; $max; "#c9a227")),
"</svg>"
