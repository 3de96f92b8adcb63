"""A whole page from its parts."""

from collections.abc import Sequence

from jaxmatch.errors import InputError
from jaxmatch.files import read_json
from jaxmatch.plain_file import check_plain_file
from jaxmatch.reporting.html import certainty, markup, sections
from jaxmatch.reporting.sweep_folder import SweepFolder

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --faint: #d5d5d5; --own: #20639b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --faint: #444; --own: #7db7e8; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid var(--faint); } h3 { font-size: 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0; }
caption { text-align: left; padding-bottom: .5rem; } th, td { text-align: left; padding: .2rem .7rem; vertical-align: top; }
th { border-bottom: 1px solid var(--ink); font-weight: 600; } th.over { text-align: center; } .number { text-align: right; }
tbody + tbody tr:first-child td { border-top: 1px solid var(--ink); } pre { overflow-x: auto; font-size: .85rem; }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 24rem)); gap: 1rem; }
@media (max-width: 40rem) { .charts { grid-template-columns: 1fr; } }
.sortable th { cursor: pointer; } [aria-sort=ascending]::after { content: " \\2191"; } [aria-sort=descending]::after { content: " \\2193"; }
@media (max-width: 40rem) { body { margin: 1rem auto; padding: 0 .6rem; } th, td { padding: .2rem .4rem; } }
li, pre { overflow-wrap: anywhere; } figure { margin: 0; } figcaption { font-size: .85rem; text-align: center; } .charts svg { width: 100%; height: auto; } .vega-embed { width: 100%; }
.vega-embed text { fill: var(--ink) !important; } .vega-embed .role-axis line, .vega-embed .role-axis path { stroke: var(--faint) !important; }
svg text { fill: var(--ink); } .axis { stroke: var(--ink); } .rule { stroke: var(--faint); } .band, .chosen { fill: var(--own); }
.run, .mean { stroke: var(--own); } .run.diverged { stroke: var(--ink); }
"""
# A click on a heading sorts the rows of its table by that column: numbers by value, anything else as text.
_SCRIPT = """
document.querySelectorAll("table.sortable").forEach(table => {
  const cell = (row, place) => row.cells[place].textContent.trim();
  const number = text => parseFloat(text.replace(/,/g, ""));
  table.querySelectorAll("thead tr:last-child th").forEach((heading, place) => {
    heading.tabIndex = 0;
    const sort = () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach(each => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((one, other) => {
        const [a, b] = [cell(one, place), cell(other, place)], [x, y] = [number(a), number(b)];
        const order = isNaN(x) || isNaN(y) ? a.localeCompare(b) : x - y;
        return down ? -order : order;
      });
      rows.forEach(row => body.append(row));
    };
    heading.addEventListener("click", sort);
    heading.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
});
"""
_PARTS = (
    ("Verdict", sections.verdict),
    ("Results", sections.results),
    ("Effect of each axis", sections.effects),
    ("Certainty", certainty.certainty),
    ("Failures", sections.failures),
    ("Learning curves", sections.curves_of_all),
    ("Plan", sections.plan),
    ("Runs", sections.runs),
    ("Settings", sections.settings),
)


def page(folders: Sequence[SweepFolder]) -> str:
    """An HTML page that needs nothing but itself; the same folders give the same page.

    Arguments:
      folders: the sweep, and after it the sweep of the setting it chose, if it is a tuning.

    Raises:
      InputError: a record is damaged, or choice.json is.
    """
    title = folders[0].layout.title or folders[0].name
    parts = [markup.element("h1", title), markup.element("p", f"Sweep {folders[0].name}.")]
    for number, folder in enumerate(folders):
        if number:
            parts.append(markup.element("h1", folder.layout.title))
        parts.append(sections.summary(folder))
        if number == 0:
            parts.append(_choice(folder))
        parts += [markup.element("h2", heading) + part(folder) for heading, part in _PARTS]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{markup.escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n{chr(10).join(parts)}\n<script>{_SCRIPT}</script>\n</body></html>\n'


def _choice(folder: SweepFolder) -> str:
    """What a tuning chose."""
    file = folder.path / "choice.json"
    if not file.exists():
        return ""
    check_plain_file(file, "run the tuning again to renew it")
    try:
        choice = read_json(file)
        place = ", ".join(
            [
                *([choice["variant"]] if choice["variant"] else []),
                *(f"{k} = {v}" for k, v in choice["overrides"].items()),
            ]
        )
        text = f"Chosen by {choice['score']} ({choice['mean']:.4f}) among {choice['candidates']}: {place or 'the only setting'}."
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"the file is damaged ({error})", path=file, remedy="run the tuning again to renew it"
        ) from None
    return markup.element("p", text)
