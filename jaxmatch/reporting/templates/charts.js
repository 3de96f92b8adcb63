// A chart in a part that is folded away has no width before it is opened.
document.querySelectorAll(".chart").forEach(place => {
  const draw = () => vegaEmbed(place, JSON.parse(place.dataset.spec), {actions: false, renderer: "svg"});
  const folded = place.closest("details");
  if (folded) folded.addEventListener("toggle", draw, {once: true}); else draw();
});
