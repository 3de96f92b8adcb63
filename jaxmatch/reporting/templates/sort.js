// A click on a heading sorts the rows of its table by that column; what has no value comes last.
document.querySelectorAll("table").forEach(table => {
  const headings = table.querySelectorAll("thead tr:last-child th");
  headings.forEach((heading, place) => {
    heading.tabIndex = 0;
    const sort = () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach(each => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      for (const body of table.tBodies) {
        body.append(...[...body.rows].sort((one, other) => {
          const [a, b] = [one, other].map(row => row.cells[place].dataset.rank);
          return (a === "") - (b === "") || (down ? b - a : a - b);
        }));
      }
    };
    heading.addEventListener("click", sort);
    heading.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
});
