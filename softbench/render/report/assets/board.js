// The run's data with what is looked up in it again and again.

function makeBoard(data) {
  data.cells.forEach((cell, number) => { cell.number = number; });
  const byCase = data.cases.map(() => []);
  for (const cell of data.cells) byCase[cell.case].push(cell);
  const heats = (cell) => (cell.samples || []).filter((samples) => samples.clock === data.clock);
  const nameOf = (cell) => data.implementations[cell.impl];
  // Who stands for an implementation in a case: entrant before reference, never a variant that was not chosen.
  const standsFor = (caseNumber, implementation) => {
    const own = byCase[caseNumber].filter((cell) => nameOf(cell) === implementation && !cell.other && cell.role !== "roof");
    return own.find((cell) => !cell.role) || own[0];
  };
  return { ...data, byCase, heats, nameOf, standsFor };
}

// Time of the baseline over that of every cell, by the cell's number; null where there is no such ratio.
function speedupsOver(board, baseline) {
  const found = new Array(board.cells.length).fill(null);
  board.byCase.forEach((cells, caseNumber) => {
    const base = board.standsFor(caseNumber, baseline);
    const baseHeats = base ? board.heats(base) : [];
    for (const cell of cells) {
      if (!cell.other && baseHeats.length) found[cell.number] = ratioOf(baseHeats, board.heats(cell));
    }
  });
  return found;
}

// Geometric mean over a slice's cases of an implementation's speed-ups; null where it has none.
function meanSpeedup(board, speedups, slice, implementation) {
  const values = [];
  for (const caseNumber of board.slices[slice]) {
    const cell = board.byCase[caseNumber].find((entry) => entry.impl === implementation && !entry.role && !entry.other);
    if (cell && speedups[cell.number] !== null) values.push(speedups[cell.number]);
  }
  return values.length ? geometricMean(values) : null;
}
