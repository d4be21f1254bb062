
function makeBoard(data) {
  data.cells.forEach((cell, number) => { cell.number = number; });
  const byCase = data.cases.map(() => []);
  for (const cell of data.cells) byCase[cell.case].push(cell);
  const heats = (cell) => (cell.samples || []).filter((samples) => samples.clock === data.clock);
  const nameOf = (cell) => data.implementations[cell.impl];
  // The cell of an implementation in a case: entrant before reference, never a variant that was not chosen.
  const cellOf = (caseNumber, implementation) => {
    const own = byCase[caseNumber].filter((cell) => nameOf(cell) === implementation && !cell.other && cell.role !== "roof");
    return own.find((cell) => !cell.role) || own[0];
  };
  return { ...data, byCase, heats, nameOf, cellOf };
}

// Time of the baseline over that of every cell with its variance, by the cell's number; null without such a ratio.
function speedupsOver(board, baseline) {
  const speedups = new Array(board.cells.length).fill(null);
  board.byCase.forEach((cells, caseNumber) => {
    const base = board.cellOf(caseNumber, baseline);
    const baseHeats = base ? board.heats(base) : [];
    for (const cell of cells) {
      if (!cell.other && baseHeats.length) speedups[cell.number] = ratioOf(baseHeats, board.heats(cell));
    }
  });
  return speedups;
}

function meanSpeedup(board, speedups, slice, implementation) {
  const values = [];
  for (const caseNumber of board.slices[slice]) {
    const cell = board.byCase[caseNumber].find((entry) => entry.impl === implementation && !entry.role && !entry.other);
    if (cell && speedups[cell.number] !== null) values.push(speedups[cell.number]);
  }
  return values.length ? estimate(values, board.critical) : null;
}
