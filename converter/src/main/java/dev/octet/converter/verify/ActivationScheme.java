package dev.octet.converter.verify;

/** The activation scheme of an fp8 configuration. */
final class ActivationScheme extends CheckpointRule {
    ActivationScheme() {
        super(
                "activation-scheme",
                Severity.ERROR,
                Consumer.VLLM_LIKE,
                "An fp8 configuration names its activation_scheme, and with blocks it is dynamic.",
                "set \"activation_scheme\": \"dynamic\", or static with per-tensor scales and calibrated inputs",
                "vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.settings().method() != QuantSettings.Method.FP8) {
            return;
        }
        String scheme = subject.settings().json().path("activation_scheme").asText("");
        boolean blocks = subject.settings().groups().stream()
                .anyMatch(g -> g.weights() != null && g.weights().rows() > 0);
        if (!scheme.equals("static") && !scheme.equals("dynamic")) {
            findings.add(
                    this,
                    "the configuration does not say how activations are quantised",
                    "quantization_config.activation_scheme",
                    scheme.isEmpty() ? "missing" : scheme);
        } else if (blocks && scheme.equals("static")) {
            findings.add(
                    this, "blocks go with dynamic activations only", "quantization_config.activation_scheme", scheme);
        }
    }
}
