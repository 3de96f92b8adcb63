// A click on a heading sorts the rows of its table by that column: by value if it holds numbers ("1,024", "83.4 ± 2.3",
// "−0.5 (p = 0.02)"), otherwise as text. What has no value comes last.
const number = text => {
  const found = /^([+−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)/.exec(text);
  return found && Number(found[1].replaceAll(",", "").replace("−", "-"));
};
document.querySelectorAll("table").forEach(table => {
  const headings = table.querySelectorAll("thead tr:last-child th");
  headings.forEach((heading, place) => {
    heading.tabIndex = 0;
    const sort = () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach(each => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      for (const body of table.tBodies) {
        const texts = [...body.rows].map(row => row.cells[place].textContent).filter(text => text !== "" && text !== "–");
        const numeric = heading.classList.contains("number") || texts.every(text => !isNaN(Number(text)));
        const value = row => numeric ? number(row.cells[place].textContent) : row.cells[place].textContent.replace("–", "") || null;
        body.append(...[...body.rows].sort((one, other) => {
          const [a, b] = [value(one), value(other)];
          const order = numeric ? a - b : String(a).localeCompare(b);
          return (a === null) - (b === null) || (down ? -order : order);
        }));
      }
    };
    heading.addEventListener("click", sort);
    heading.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
});
