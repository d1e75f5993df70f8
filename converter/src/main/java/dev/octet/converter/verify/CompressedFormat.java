package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.Set;

/** Status and format of a compressed-tensors configuration. */
final class CompressedFormat {
    static final CheckpointRule RULE = Demand.error("compressed-format", Consumer.OF_CHECKPOINTS)
            .text("A compressed-tensors configuration has quantization_status compressed and a format that fits"
                    + " its schemes: otherwise weights are taken for unquantised ones.")
            .fix("set \"quantization_status\": \"compressed\" and the format that fits: float-quantized,"
                    + " naive-quantized, int-quantized, pack-quantized, mxfp8-quantized, nvfp4-pack-quantized")
            .source("vllm-project/llm-compressor#958,"
                    + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/quant_config.py")
            .onCheckpoints(CompressedFormat::check);

    /** Engines do not look at the status. */
    private static final Set<Consumer> STATUS_READERS = EnumSet.of(Consumer.TRANSFORMERS);

    private CompressedFormat() {}

    private static void check(CheckpointSubject subject, Report report) {
        QuantSettings settings = subject.settings();
        if (settings.method() != QuantSettings.Method.COMPRESSED_TENSORS) {
            return;
        }
        JsonNode json = settings.json();
        String status = json.path("quantization_status").asText("none");
        if (!status.equals("compressed")) {
            report.add(
                    Severity.ERROR,
                    STATUS_READERS,
                    "quantization_status is not compressed",
                    "quantization_config.quantization_status",
                    status);
        }
        String format = json.path("format").asText("");
        if (format.isEmpty()) {
            report.add("the configuration names no format", "quantization_config.format", "fakequant is the default");
        }
        for (QuantSettings.Group group : settings.groups()) {
            String own =
                    json.path("config_groups").path(group.name()).path("format").asText("");
            String used = own.isEmpty() ? format : own;
            if (group.weights() != null && !used.isEmpty() && !fits(used, group.weights())) {
                report.add(
                        "the format does not fit the scheme",
                        "quantization_config.config_groups." + group.name(),
                        used + " with " + group.weights().bits()
                                + (group.weights().isFloat() ? "-bit floats, strategy " : "-bit integers, strategy ")
                                + group.weights().strategy());
            }
        }
    }

    private static boolean fits(String format, QuantSettings.Operand weights) {
        boolean mx = weights.isFloat8() && weights.strategy().equals("group") && weights.groupSize() == 32;
        return switch (format) {
            case "float-quantized", "naive-quantized" -> weights.bits() == 8;
            case "int-quantized" -> !weights.isFloat() && weights.bits() == 8;
            case "pack-quantized" -> !weights.isFloat() && weights.bits() <= 8;
            case "mxfp8-quantized" -> mx;
            case "nvfp4-pack-quantized", "mxfp4-pack-quantized" -> weights.isFloat4();
            default -> true; // formats that Octet does not know, mixed-precision among them
        };
    }
}
