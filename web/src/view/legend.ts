// What the colours of the timeline mean.
import { activityColor } from "../colors";
import { element, replace } from "../dom";
import type { State } from "../state";

export class Legend {
  readonly root = element("div", { class: "legend timeline-legend", aria: { label: "Colours" } });

  constructor(private readonly state: State) {
    state.on(["theme", "spans"], () => this.show());
    this.show();
  }

  private show(): void {
    const { activities, theme } = this.state;
    const items = activities.present.map((activity) => {
      const square = element("span", { class: "swatch" });
      square.style.background = activityColor(activity, theme.dark);
      return element("span", { class: "legend-item" }, square, activity);
    });
    replace(this.root, ...items);
  }
}
