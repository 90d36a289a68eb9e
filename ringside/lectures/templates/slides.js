// Starts reveal.js. A slide that is longer than the screen is scrolled.
Reveal.initialize({
  width: 1280,
  height: 800,
  margin: 0.03,
  center: false,
  hash: true,
  slideNumber: "c/t",
  transition: "none",
  plugins: [RevealNotes, RevealSearch],
});
