package dev.octet.converter.verify;

import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/** A program that loads models and whose demands are checked. */
public enum Consumer {
    /** vLLM: checkpoints, and LoRA adapters. */
    VLLM,
    /** SGLang: checkpoints; its loaders descend from vLLM's and share their demands. */
    SGLANG,
    /** TensorRT-LLM, its PyTorch backend: checkpoints. */
    TENSORRT_LLM,
    /** Hugging Face transformers: checkpoints. */
    TRANSFORMERS,
    /** ONNX Runtime, CPU and CUDA: ONNX graphs. */
    ONNXRUNTIME,
    /** TensorRT: ONNX graphs. */
    TENSORRT,
    /** PEFT: adapters. */
    PEFT;

    /** Those that read safetensors checkpoints. */
    public static final Set<Consumer> OF_CHECKPOINTS =
            Collections.unmodifiableSet(EnumSet.of(VLLM, SGLANG, TENSORRT_LLM, TRANSFORMERS));

    /** Those that read adapters of PEFT. */
    public static final Set<Consumer> OF_ADAPTERS = Collections.unmodifiableSet(EnumSet.of(VLLM, PEFT));

    /** Those that read ONNX graphs. */
    public static final Set<Consumer> OF_GRAPHS = Collections.unmodifiableSet(EnumSet.of(ONNXRUNTIME, TENSORRT));

    /** vLLM and what descends from it. */
    static final Set<Consumer> VLLM_LIKE = Collections.unmodifiableSet(EnumSet.of(VLLM, SGLANG));

    /** The engines that serve checkpoints. */
    static final Set<Consumer> ENGINES = Collections.unmodifiableSet(EnumSet.of(VLLM, SGLANG, TENSORRT_LLM));

    /** An unmodifiable copy in the order above. */
    static Set<Consumer> set(Set<Consumer> consumers) {
        return Collections.unmodifiableSet(EnumSet.copyOf(consumers));
    }

    /** What users type: {@code tensorrt-llm}. */
    public String text() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** The consumer of this name. */
    public static Optional<Consumer> of(String text) {
        return Arrays.stream(values()).filter(c -> c.text().equals(text)).findFirst();
    }

    /** All names. */
    public static List<String> names() {
        return Arrays.stream(values()).map(Consumer::text).toList();
    }
}
