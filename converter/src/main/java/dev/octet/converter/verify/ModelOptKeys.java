package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.JsonNode;

/** Fields of a ModelOpt configuration that vLLM needs for MXFP8. */
final class ModelOptKeys extends CheckpointRule {
    ModelOptKeys() {
        super(
                "modelopt-keys",
                Severity.ERROR,
                Consumer.VLLM_LIKE,
                "hf_quant_config.json of an MXFP8 checkpoint has kv_cache_quant_algo and exclude_modules, if only null"
                        + " and [].",
                "add \"kv_cache_quant_algo\": null and \"exclude_modules\": []",
                "vllm-project/vllm:vllm/model_executor/layers/quantization/modelopt.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.quantConfig() == null || !subject.settings().algorithm().equals("MXFP8")) {
            return;
        }
        JsonNode quantization = subject.quantConfig().path("quantization");
        for (String key : new String[] {"kv_cache_quant_algo", "exclude_modules"}) {
            if (!quantization.has(key)) {
                findings.add(this, "a field is missing", CheckpointSubject.QUANT_CONFIG, "quantization." + key);
            }
        }
    }
}
