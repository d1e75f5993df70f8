package dev.octet.cli;

import dev.octet.trainer.device.cuda.GpuInfo;
import dev.octet.trainer.device.cuda.GpuReport;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** What {@code octet inspect --device} prints of {@code --device cuda}. */
final class GpuPage {
    private GpuPage() {}

    /**
     * What {@code --json} prints.
     *
     * @param usable whether {@code octet train --device cuda} can start
     */
    record Answer(boolean usable, List<GpuFact> gpus, List<PartFact> parts) {}

    /** One GPU. */
    record GpuFact(String device, String name, String capability, int multiprocessors, long memoryBytes, boolean fp8) {
        static GpuFact of(GpuInfo g) {
            return new GpuFact(
                    "cuda:" + g.ordinal(),
                    g.name(),
                    g.capabilityText(),
                    g.multiprocessors(),
                    g.totalBytes(),
                    g.hasFp8());
        }
    }

    /** The driver or a library: {@code where} it is, or every path tried; {@code problem} and {@code fix} are null when it was found. */
    record PartFact(
            String name,
            @Nullable String version,
            String where,
            @Nullable String problem,
            @Nullable String fix) {
        static PartFact of(GpuReport.Part p) {
            return new PartFact(p.name(), p.version(), p.where(), p.problem(), p.fix());
        }
    }

    static String json(GpuReport report) {
        return Json.answer(
                        "inspect",
                        new Answer(
                                report.usable(),
                                report.gpus().stream().map(GpuFact::of).toList(),
                                report.parts().stream().map(PartFact::of).toList()))
                + "\n";
    }

    static String text(GpuReport report) {
        StringBuilder text = new StringBuilder();
        Table gpus = new Table().heading("device", "GPU", "capability", "FP8", "multiprocessors", "memory");
        for (GpuInfo g : report.gpus()) {
            gpus.row(
                    "cuda:" + g.ordinal(),
                    g.name(),
                    g.capabilityText(),
                    g.hasFp8() ? "yes" : "no",
                    g.multiprocessors(),
                    Quantity.bytes(g.totalBytes()));
        }
        text.append(report.gpus().isEmpty() ? "no GPU was found\n" : gpus.text(0))
                .append('\n');
        Table parts = new Table();
        for (GpuReport.Part p : report.parts()) {
            if (p.found()) {
                parts.row(p.name(), Objects.requireNonNullElse(p.version(), ""), p.where());
            } else {
                parts.row(p.name(), "-", String.valueOf(p.problem()));
            }
        }
        text.append(parts.text(0));
        report.parts().stream()
                .filter(p -> !p.found())
                .forEach(p -> text.append('\n')
                        .append(p.name())
                        .append(": ")
                        .append(p.problem())
                        .append("\n  where: ")
                        .append(p.where())
                        .append("\n  fix:   ")
                        .append(p.fix())
                        .append('\n'));
        text.append(report.usable() ? "\n--device cuda can be used\n" : "\n--device cuda cannot be used\n");
        return text.toString();
    }
}
