package dev.octet.pipeline;

import dev.octet.converter.report.ReportData;
import java.util.ArrayList;
import java.util.List;

/** The steps of a job with their times, in order. */
final class Stopwatch {
    private final long start = System.nanoTime();
    private final List<ReportData.Timing> timings = new ArrayList<>();
    private long last = start;

    /** A step has ended. */
    void step(String name) {
        long now = System.nanoTime();
        timings.add(new ReportData.Timing(name, (now - last) / 1e9));
        last = now;
    }

    /** The steps so far. */
    List<ReportData.Timing> timings() {
        return List.copyOf(timings);
    }

    /** From the start to now. */
    double seconds() {
        return (System.nanoTime() - start) / 1e9;
    }
}
