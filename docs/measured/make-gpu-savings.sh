#!/usr/bin/env bash
# Writes docs/measured/gpu-savings.md and gpu-savings.svg from runs of `briareus plan`; traffic is read from
# $BRIAREUS_SHARED (default ../shared). What a run prints is kept in RUNS and not run again, so that the script can be
# stopped and started; runs of another program belong into another folder. With NAMEs only those runs are made.
# Usage: docs/measured/make-gpu-savings.sh [PROGRAM [RUNS [NAME...]]]   (default build/bin/briareus build/gpu-savings)
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-build/bin/briareus}
runs=${2:-build/gpu-savings}
traces=${BRIAREUS_SHARED:-../shared}/data/traces
out=docs/measured/gpu-savings
mkdir -p "$runs"

market=(--scenario market --seeds 3 --horizon 1200)
same=(--model "Qwen2.5-1.5B count=7" --model "Qwen2.5-3B count=5" --model "Qwen2.5-7B count=16"
  --model "Qwen2.5-32B count=11" --model "Qwen2.5-72B count=8")
tail=(--market "$traces/servegen_tail_rates.csv" --market-models "$traces/servegen_tail_models.csv" --gpu H20
  --large-dedicated-tp 4 --horizon 420)
tail4=("${tail[@]:0:6}" --large-weights int4 --large-dedicated-tp 1 --horizon 420)
versus=(--policy slack --policy dedicated)
every=(--policy slack --policy aegaeon --policy request --policy dedicated)
served=(--policy slack --policy aegaeon --policy request --policy request-sjf --handicapped --seeds 1)
l20=(--scenario l20-72b --seeds 1 --horizon 900 --policy slack --policy aegaeon --policy request --policy multiplex)

options() { # NAME: sets `words`
  case $1 in
    market) words=("${market[@]}" --handicapped) ;;
    market-n1) words=("${market[@]}" --redundancy 1 "${versus[@]}") ;;
    market-int4) words=("${market[@]}" --large-weights int4) ;;
    market-int4-same) words=("${market[@]}" --large-weights int4 "${versus[@]}" "${same[@]}") ;;
    tail) words=("${tail[@]}" --mean-rate .037 "${every[@]}") ;;
    tail-int4) words=("${tail4[@]}" --mean-rate .037 "${every[@]}") ;;
    tail-int4-90) words=("${tail4[@]}" --mean-rate .037 --policy slack --target .9 --pool-floor .5) ;;
    tail-x1) words=("${tail[@]}" --seeds 1 "${every[@]}" --horizon 300) ;;
    tail-x1-int4) words=("${tail4[@]}" --seeds 1 "${every[@]}" --horizon 300) ;;
    tail-x4) words=("${tail[@]}" --rate-scale 4 --seeds 1 "${every[@]}" --horizon 240) ;;
    tail-x4-int4) words=("${tail4[@]}" --rate-scale 4 --seeds 1 "${every[@]}" --horizon 240) ;;
    fig11a) words=(--scenario paper-fig11a "${served[@]}" --horizon 500) ;;
    fig11b) words=(--scenario paper-fig11b "${served[@]}" --horizon 240) ;;
    h20-72b) words=(--scenario h20-72b --seeds 1 --horizon 900) ;;
    l20-72b) words=("${l20[@]}") ;;
    l20-72b-tp1) words=("${l20[@]}" --model "Qwen2.5-72B weights=int4 kv=fp8 rate=.037 tp=1") ;;
    tco) words=(--scenario tco --horizon 400) ;;
    *) echo "no run $1" >&2 && exit 2 ;;
  esac
}

make_run() { # NAME
  [ -s "$runs/$1.txt" ] && return
  options "$1"
  "$program" plan --quiet --threads 1 --kv-count tokens "${words[@]}" >"$runs/$1.new"
  mv "$runs/$1.new" "$runs/$1.txt"
}

section() { # NAME: the command and what it printed
  make_run "$1"
  options "$1"
  echo
  printf '    briareus plan'
  local word
  for word in "${words[@]}"; do
    word=${word//$traces\//}
    case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
  done
  printf '\n\n'
  cat "$runs/$1.txt"
}

headline() { # NAME TITLE: a row of the summary
  make_run "$1"
  sed -n "s~^slack on .*: fluid compute bound \([0-9.]*\) GPUs, host-memory floor \([0-9]*\) GPUs; \([0-9]*\) are .*, [0-9]* without redundancy \([0-9.]*\) x; dedicated \([0-9]*\);.*~| $2 | \3 | \5 | \1 | \2 | \4 |~p" "$runs/$1.txt" |
    awk -F '|' -v OFS='|' '{ $5 = sprintf(" %.1f |%s", 100 * (1 - $3 / $4), $5) } { print }' || exit 1
}

# Bars of each policy's GPUs in shares of the dedicated replicas, from the printed tables.
picture() { # NAME=TITLE...
  local pair name
  for pair in "$@"; do
    name=${pair%%=*}
    make_run "$name"
    echo "# ${pair#*=}"
    grep -E '^\| (slack|aegaeon|request|multiplex|dedicated)' "$runs/$name.txt"
  done | awk -F '|' '
    function text(x, y, size, what) {
      gsub(/&/, "\\&amp;", what)
      body = body sprintf("<text x=\"%d\" y=\"%d\" font-size=\"%d\">%s</text>\n", x, y, size, what)
    }
    function flush_group(   i, all, width) {
      for (i = 1; i <= n; i++) if (policy[i] == "dedicated") all = gpus[i]
      for (i = 1; i <= n; i++) {
        y += 20
        text(10, y, 13, policy[i])
        if (gpus[i] == "none") { text(230, y, 13, "holds at no count"); continue }
        width = 420 * gpus[i] / all
        body = body sprintf("<rect x=\"230\" y=\"%d\" width=\"%.1f\" height=\"13\" fill=\"%s\"/>\n", y - 11, width,
                            policy[i] == "slack" ? "#3b6fb6" : "#9aa4af")
        text(238 + width, y, 13, gpus[i] sprintf(policy[i] == "dedicated" ? "" : " (%+.1f %%)", 100 * (gpus[i] / all - 1)))
      }
      n = 0
      y += 14
    }
    /^#/ { flush_group(); y += 24; text(10, y, 15, substr($0, 3)); next }
    { n++; policy[n] = $2; gpus[n] = $4; gsub(/^ +| +$/, "", policy[n]); gsub(/ /, "", gpus[n]) }
    END {
      flush_group()
      printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"%d\" font-family=\"sans-serif\" fill=\"#1b1f24\">\n", y
      printf "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n%s</svg>\n", body
    }'
}

if [ $# -gt 2 ]; then
  for name in "${@:3}"; do make_run "$name"; done
  exit
fi

picture market="A market as published, 47 models" market-int4="The same, 32B and 72B in 4 bits" \
  tail="A real tail, 147 models, rates scaled to .037/s" tail-int4="The same, 32B and 72B in 4 bits" >"$out.svg.new"
{
  cat <<'TEXT'
# How many GPUs are saved

Written by `docs/measured/make-gpu-savings.sh` from simulated runs of the scheduler's own policies. `docs/planning.md`
says what the columns are and how the answers are found.

![GPUs by policy, in shares of dedicated replicas](gpu-savings.svg)

| H20 GPUs for 99 % of tokens on time | slack | dedicated | fewer, % | fluid compute bound | host-memory floor | without redundancy, x the larger bound |
|---|--:|--:|--:|--:|--:|--:|
TEXT
  headline market "market as published"
  headline market-n1 "the same, N+1"
  headline market-int4 "the same, N+0, 32B and 72B in 4 bits"
  headline market-int4-same "against dedicated in the same format"
  headline tail "real tail, mean rate .037/s"
  headline tail-int4 "the same, 4 bits, dedicated in the same format"
  headline tail-x1 "real tail as it is"
  headline tail-x1-int4 "the same, 4 bits"
  headline tail-x4 "real tail, four times the load"
  headline tail-x4-int4 "the same, 4 bits"
  cat <<'TEXT'

**What the figures say.** With these models, this traffic and these costs, so many GPUs have 99 % of all tokens on time,
and no pool less than 90 % of those that could be. *fewer, %* compares with a replica a model (more where one does not keep
up) under the same rule and with the same redundancy. *fluid compute bound* is what ideal batching without any switch
would need, *host-memory floor* the GPUs that come with the memory for one copy of every model. A baseline that holds at no
count says so, with the reason below its table.

**What they do not say.** Steps take what `cost/` predicts (docs/measured/costs.md), so errors there are errors here; loads
run at what large copies from pinned memory reach; tensor-parallel groups, 4-bit weights and FP8 KV are predicted by
formulas that no measurement here checks; nothing fails, and no time is lost between processes; prompts share no prefixes.
A need is the largest of a few seeds, so another day may need more. Spans and seeds are few so that all of it runs in minutes
on one core: `--horizon` and `--seeds` narrow the intervals, and short spans of rarely used models hold few requests;
a span begins with an empty fleet, so where needs come near the bound a longer one, with the backlog of its bursts, asks
for more. The published savings (82 %) were measured
on GPUs with everything that a production system has; these are simulated.

`request` is fair: continuous batches, joining, the whole link. *request (artifact's handicaps)* has what the Aegaeon
artifact's baseline lacks (batches of four that nobody joins, one request at a time into them, 16 GB/s, dropping at 1.5
TTFT), to show what published ratios compare with.

## A market's tail as published
47 models, 28 of 1.8-7B and 19 of 32-72B, rates .01-1.13 requests/s with a mean of .037. `dedicated` has the 32B and 72B
models on four GPUs each, as published.
TEXT
  section market
  echo
  echo "With one spare device in every pool, and one spare replica for every dedicated model:"
  section market-n1
  cat <<'TEXT'

With 4-bit weights for the 32B and 72B models, against the published deployment, and against dedicated replicas in the same
format on the fewest GPUs that hold them:
TEXT
  section market-int4
  section market-int4-same
  cat <<'TEXT'

## A real market's tail
147 low-rate clients of Alibaba Model Studio, each taken as one model of a drawn size (ServeGen); the busiest minutes of the
day (`--horizon`; one at both ends does not count). First at rates scaled to a mean of .037 requests/s over the day. Long prompts (60,000 tokens for a 72B model) take
longer than the 10 s to the first token even alone; tokens that are late for that reason alone count as late.
TEXT
  section tail
  section tail-int4
  cat <<'TEXT'

Why more than ideal batching would need: the bound spreads the span's work evenly, and 1 % of tokens is less than what a
burst holds. At 90 % of tokens the same traffic needs:
TEXT
  section tail-int4-90
  cat <<'TEXT'

The rates as they are, then four times as much; one seed, so no intervals:
TEXT
  section tail-x1
  section tail-x1-int4
  section tail-x4
  section tail-x4-int4
  cat <<'TEXT'

## The paper's workloads
How many models two nodes hold, with fitted costs instead of the policies' idealised ones. The paper names 2 x
ServerlessLLM for the first and 2.5 x for the second at 90 % of tokens.
TEXT
  section fig11a
  section fig11b
  cat <<'TEXT'

## Models of 72 billion parameters
How many models in 4 bits a node of eight holds: H20, then L20 with two GPUs a device, and with one and KV in 8 bits.
TEXT
  section h20-72b
  section l20-72b
  section l20-72b-tp1
  cat <<'TEXT'

## A100, H20 or L20 for my 72B models?
Prices are placeholders; `--prices` takes your own.
TEXT
  section tco
} >"$out.md.new"
mv "$out.svg.new" "$out.svg"
mv "$out.md.new" "$out.md"
