"""Plots a histogram of round-trip times between two machines: python latency.py [MODEL]

Without matplotlib it prints the histogram.
"""

import re
import sys

import hamlyn

COUNT = 1000


def round_trips(model: str) -> list[float]:
    """Returns times of messages there and back, in microseconds."""
    with hamlyn.Lab(machines=2, model=model) as lab:
        lab.start(1, ["hamlyn-ping"], ready="listening")
        pings = lab.run(0, ["hamlyn-ping", "-c", str(COUNT), "-i", "0", "1"], timeout=300)
    return [float(time) for time in re.findall(r"time=([0-9.]+) us", pings.stdout)]


def bins(times: list[float], count: int = 20) -> list[tuple[float, int]]:
    """Returns the beginning of each bin and its number of times, up to the 99th percentile."""
    shown = sorted(times)[: max(1, len(times) * 99 // 100)]
    width = (shown[-1] - shown[0]) / count or 1.0
    numbers = [0] * count
    for time in shown:
        numbers[min(count - 1, int((time - shown[0]) / width))] += 1
    return [(shown[0] + at * width, number) for at, number in enumerate(numbers)]


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "hamlyn"
    times = round_trips(model)
    title = f"{len(times)} round trips by {model} cards, median {sorted(times)[len(times) // 2]:.1f} us"
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print(title)
        found = bins(times)
        most = max(number for _, number in found)
        for start, number in found:
            print(f"{start:10.1f} us {number:6} {'#' * (number * 50 // most)}")
        return
    plt.hist(times, bins=[start for start, _ in bins(times)])
    plt.title(title)
    plt.xlabel("round trip, us")
    plt.savefig("latency.png")
    print(f"{title}: latency.png")


if __name__ == "__main__":
    main()
