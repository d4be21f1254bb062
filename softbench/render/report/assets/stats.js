// Figures from raw samples, as softbench/model/stats.py and softbench/analysis/leaderboard/ranks.py define them.

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const expand = (samples) => samples.rounds.map((rounds) => rounds.map((steps) => samples.base + samples.step * steps));

// Median over placements of each one's median, in nanoseconds a launch.
function perLaunch(samples) {
  const medians = expand(samples).filter((rounds) => rounds.length).map(median);
  if (!medians.length) return NaN;
  return (samples.clock === "call" ? Math.min(...medians) : median(medians)) / samples.launches;
}

// Time of a over time of b, from the samples of one heat, round by round: with the variance of its logarithm.
function pairedRatio(a, b) {
  const [one, two] = [expand(a), expand(b)];
  const shift = Math.log(b.launches / a.launches);
  const logs = [];
  for (let p = 0; p < Math.min(one.length, two.length); p++) {
    const pairs = [];
    for (let r = 0; r < Math.min(one[p].length, two[p].length); r++) pairs.push(Math.log(one[p][r] / two[p][r]));
    if (pairs.length) logs.push(median(pairs) + shift);
  }
  const [middle, freedom] = [logs.length ? mean(logs) : NaN, logs.length - 1];
  const variance = freedom > 0 ? logs.reduce((sum, log) => sum + (log - middle) ** 2, 0) / freedom / logs.length : null;
  return { ratio: Math.exp(middle), placements: logs.length, variance, freedom };
}

// Time of a over time of b over all heats of each: paired where both ran in one, else that of the medians.
function ratioOf(a, b) {
  if (!a.length || !b.length) return null;
  const pairs = a.flatMap((x) => b.filter((y) => y.heat === x.heat).map((y) => pairedRatio(x, y)));
  const best = pairs.reduce((kept, pair) => (kept && kept.placements >= pair.placements ? kept : pair), null);
  const found = best || { ratio: median(a.map(perLaunch)) / median(b.map(perLaunch)), variance: null };
  return Number.isFinite(found.ratio) ? found : null;
}

// The geometric mean of ratios and half of its interval, as softbench/analysis/leaderboard/estimates.py has it; infinite if unknown.
function estimate(ratios, critical) {
  const value = Math.exp(mean(ratios.map((own) => Math.log(own.ratio))));
  const known = ratios.filter((own) => own.variance !== null);
  const total = known.reduce((sum, own) => sum + own.variance, 0);
  if (!known.length) return { value, half: Infinity };
  if (!total) return { value, half: 0 };
  const freedom = total ** 2 / known.reduce((sum, own) => sum + own.variance ** 2 / own.freedom, 0);
  const log = (critical[Math.min(Math.max(1, Math.floor(freedom + 1e-9)), critical.length) - 1] * Math.sqrt((total * ratios.length) / known.length)) / ratios.length;
  return { value, half: log < 1 ? value * Math.sinh(log) : Infinity };
}

// "2.49× ±0.01": no more decimals than the interval supports.
function plusMinus({ value, half }, most = 2) {
  most = digits(value, most);
  if (!half || !Number.isFinite(half)) return `${value.toFixed(most)}×`;
  const places = Math.max(0, Math.min(most, -Math.floor(Math.log10(half / 3) + 1e-9)));
  const shown = Math.ceil(half * 10 ** places - 1e-6) / 10 ** places;
  return `${value.toFixed(places)}× ±${(shown || 10 ** -places).toFixed(places)}`;
}
