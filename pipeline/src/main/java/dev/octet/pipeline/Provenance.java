package dev.octet.pipeline;

import dev.octet.converter.report.ReportData;
import dev.octet.converter.report.RunFacts;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.formats.OctetVersion;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * What reports say of how they came to be.
 *
 * @param job whose command line and threads they name
 */
public record Provenance(Job job) {
    private static final DateTimeFormatter DATE = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm z", Locale.ROOT);

    /** Which libraries a job ran. */
    public enum Ran {
        /** Octet's own code. */
        OCTET,
        /** Models in ONNX Runtime, too. */
        ONNX_RUNTIME
    }

    /**
     * The facts, as of now.
     *
     * @param timings steps in the order they ran
     */
    public RunFacts facts(Ran ran, List<RunFacts.Digest> digests, List<ReportData.Timing> timings) {
        List<ReportData.Version> versions = new ArrayList<>();
        versions.add(new ReportData.Version("Octet", OctetVersion.current()));
        if (ran == Ran.ONNX_RUNTIME) {
            versions.add(new ReportData.Version("ONNX Runtime", OnnxRuntime.version() + ", on the processor"));
        }
        versions.add(new ReportData.Version("Java", Runtime.version().toString()));
        versions.add(new ReportData.Version(
                "device",
                System.getProperty("os.name") + " " + System.getProperty("os.arch") + ", " + job.threads()
                        + (job.threads() == 1 ? " thread" : " threads")));
        return new RunFacts(
                job.commandLine(), ZonedDateTime.now(ZoneId.systemDefault()).format(DATE), digests, versions, timings);
    }
}
