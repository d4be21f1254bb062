// Figures from raw samples, as softbench/model/stats.py and softbench/analysis/leaderboard/ranks.py define them.

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const geometricMean = (values) => Math.exp(mean(values.map(Math.log)));

// Times of all rounds by placement, in nanoseconds a sample.
const expand = (samples) => samples.rounds.map((rounds) => rounds.map((steps) => samples.base + samples.step * steps));

// Median over placements of each one's median, in nanoseconds a launch.
function perLaunch(samples) {
  const medians = expand(samples).filter((rounds) => rounds.length).map(median);
  if (!medians.length) return NaN;
  return (samples.clock === "call" ? Math.min(...medians) : median(medians)) / samples.launches;
}

// Time of a over time of b, from the samples of one heat, round by round.
function pairedRatio(a, b) {
  const [one, two] = [expand(a), expand(b)];
  const shift = Math.log(b.launches / a.launches);
  const logs = [];
  for (let p = 0; p < Math.min(one.length, two.length); p++) {
    const pairs = [];
    for (let r = 0; r < Math.min(one[p].length, two[p].length); r++) pairs.push(Math.log(one[p][r] / two[p][r]));
    if (pairs.length) logs.push(median(pairs) + shift);
  }
  return { ratio: logs.length ? Math.exp(mean(logs)) : NaN, placements: logs.length };
}

// Time of a over time of b over all heats of each: paired where both ran in one, else that of the medians.
function ratioOf(a, b) {
  if (!a.length || !b.length) return null;
  const pairs = a.flatMap((x) => b.filter((y) => y.heat === x.heat).map((y) => pairedRatio(x, y)));
  const best = pairs.reduce((kept, pair) => (kept && kept.placements >= pair.placements ? kept : pair), null);
  const ratio = best ? best.ratio : median(a.map(perLaunch)) / median(b.map(perLaunch));
  return Number.isFinite(ratio) ? ratio : null;
}
