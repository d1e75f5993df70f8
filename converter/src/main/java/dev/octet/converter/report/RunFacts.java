package dev.octet.converter.report;

import java.util.List;

/**
 * How a report came to be: what every page says at its end.
 *
 * @param command the command line; empty where the library was called
 * @param date when, as text with its time zone
 * @param digests of what was read and written, as far as they were taken
 * @param versions of Octet and of what it ran on
 * @param timings steps in the order they ran
 */
public record RunFacts(
        String command,
        String date,
        List<Digest> digests,
        List<ReportData.Version> versions,
        List<ReportData.Timing> timings) {
    /** Nothing is known. */
    public static final RunFacts NONE = new RunFacts("", "", List.of(), List.of(), List.of());

    public RunFacts {
        digests = List.copyOf(digests);
        versions = List.copyOf(versions);
        timings = List.copyOf(timings);
    }

    /**
     * What identifies a file or data set.
     *
     * @param of what it is of, as "model"
     * @param sha256 lower-case hexadecimal
     */
    public record Digest(String of, String sha256) {}
}
