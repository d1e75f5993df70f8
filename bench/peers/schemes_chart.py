"""The chart of bench/run-schemes and bench/run-transforms: an SVG of size against what is lost, one mark for each row."""

from math import log

LEFT, TOP, WIDTH, HEIGHT, LABELS = 70, 30, 560, 340, 250
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8a5fbf", "#c98a00", "#4a9d9c", "#7a5230", "#d36ba6", "#555555", "#9bb300")
TICKS = [digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 5)]


def chart(rows, axis, path):
    """Rows have scheme, rounding, transform, megabytes and loss, which is drawn on a logarithmic axis."""
    losses = [max(row["loss"], 1e-6) for row in rows]
    low, high = min(losses) * 0.8, max(losses) * 1.25
    widest = max(row["megabytes"] for row in rows) * 1.05
    x = lambda megabytes: LEFT + WIDTH * megabytes / widest
    y = lambda loss: TOP + HEIGHT * (log(loss) - log(low)) / (log(high) - log(low))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + LABELS}" height="{TOP + HEIGHT + 50}" font-family="sans-serif" font-size="12">',
             f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
             f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 40}" text-anchor="middle">size in MB</text>',
             f'<text x="{LEFT}" y="{TOP - 12}">{axis} (logarithmic; higher on the page is better)</text>']
    step = next(tick for tick in TICKS if widest / tick <= 8)
    for tick in range(int(widest / step) + 1):
        parts.append(f'<text x="{x(tick * step):.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{tick * step:g}</text>')
    for tick in TICKS:
        if low <= tick <= high:
            parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.0f}" text-anchor="end">{tick:g}</text>'
                         f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y(tick):.0f}" y2="{y(tick):.0f}" stroke="#eee"/>')
    kinds = list(dict.fromkeys((row["rounding"], row["transform"]) for row in rows))
    labelled = set()
    for row, loss in zip(rows, losses):
        colour = COLOURS[kinds.index((row["rounding"], row["transform"])) % len(COLOURS)]
        parts.append(f'<circle cx="{x(row["megabytes"]):.1f}" cy="{y(loss):.1f}" r="5" fill="{colour}"><title>{row["label"]}</title></circle>')
        if row["scheme"] not in labelled:
            labelled.add(row["scheme"])
            parts.append(f'<text x="{x(row["megabytes"]) + 8:.1f}" y="{y(loss) + 4:.1f}" fill="#333">{row["scheme"]}</text>')
    for at, kind in enumerate(kinds):
        parts.append(f'<text x="{LEFT + WIDTH + 20}" y="{TOP + 20 + 18 * at}" fill="{COLOURS[at % len(COLOURS)]}">{kind[0]}'
                     f'{"" if kind[1] == "none" else ", " + kind[1]}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*parts, "</svg>", ""]))
