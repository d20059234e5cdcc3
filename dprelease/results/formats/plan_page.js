(function () {
  "use strict";
  var slider = document.getElementById("epsilon");
  var chosen = document.getElementById("chosen");
  var meaning = document.getElementById("meaning");
  var heads = document.querySelectorAll("thead th[data-i]");
  var marked = document.querySelectorAll("[data-i]");

  function show() {
    var at = slider.value;
    var head = heads[Number(at)].dataset;
    marked.forEach(function (item) {
      item.classList.toggle("on", item.dataset.i === at);
    });
    chosen.textContent = head.epsilon;
    slider.setAttribute("aria-valuetext", "epsilon " + head.epsilon);
    meaning.textContent = head.refused
      ? "No plan at this epsilon: " + head.refused + "."
      : "No conclusion about " + meaning.dataset.one + " becomes more than " + head.factor +
        " times as likely by one release" +
        (head.releases ? "; the whole budget pays for " + head.releases + " of them." : ".");
  }

  document.querySelector(".choice").hidden = false;
  slider.addEventListener("input", show);
  show();
})();
