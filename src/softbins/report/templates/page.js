// The heads of tables become buttons that sort by their column, upwards and then downwards.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], heads = Array.from(table.tHead.rows[0].cells);
  const value = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), undefined, { numeric: true });
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const known = row => value(row, column) !== "" && !Number.isNaN(value(row, column));
      const rows = Array.from(body.rows);
      const sorted = rows.filter(known).sort((a, b) =>
        (up ? 1 : -1) * compare(value(a, column), value(b, column)));
      // Rows without a value come last either way.
      body.append(...sorted, ...rows.filter(row => !known(row)));
    });
  });
}
