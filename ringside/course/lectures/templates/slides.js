// Starts reveal.js. A slide that is longer than the screen is made smaller, and then scrolled;
// those of a deck fit.
const HEIGHT = 800;
const SIZES = [1, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7];

function fit(slide) {
  if (slide.querySelector(".deck")) return;
  for (const size of SIZES) {
    slide.style.zoom = size;
    if (slide.scrollHeight * size <= HEIGHT) break;
  }
  slide.style.maxHeight = `${HEIGHT / slide.style.zoom}px`;
  slide.style.overflowY = "auto";
}

Reveal.initialize({
  width: 1280,
  height: HEIGHT,
  margin: 0.03,
  center: false,
  hash: true,
  slideNumber: "c/t",
  transition: "none",
  plugins: [RevealNotes, RevealSearch],
});
addEventListener("load", async () => {
  await MathJax.startup.promise;
  fit(Reveal.getCurrentSlide());
});
Reveal.on("slidechanged", (event) => fit(event.currentSlide));
// What a key brings below the screen's edge comes into sight.
Reveal.on("fragmentshown", ({ fragment }) => {
  const slide = Reveal.getCurrentSlide();
  const [box, frame] = [fragment.getBoundingClientRect(), slide.getBoundingClientRect()];
  // Its end, but never so far that its beginning is gone.
  const beyond = Math.min(box.bottom - frame.bottom, box.top - frame.top);
  const scale = frame.height / slide.clientHeight;
  if (beyond > 0) slide.scrollTop += beyond / scale;
});
