// The values of metrics over time, as far back as charts show them.

export class History {
  /** `span`: how many milliseconds are kept. */
  constructor(span) {
    this.span = span;
    this.series = new Map();
  }

  /** Add the values of one moment: a map of name to number. */
  add(at, values) {
    for (const [name, value] of values) {
      if (!this.series.has(name)) this.series.set(name, []);
      const points = this.series.get(name);
      points.push([at, value]);
      while (points[0][0] < at - this.span) points.shift();
    }
  }

  points(name) {
    return this.series.get(name) ?? [];
  }
}
