package dev.octet.cli;

import dev.octet.formats.error.Nearest;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Words that other tools of the field have for Octet's verbs and options: llm-compressor, ModelOpt, optimum, transformers, ONNX Runtime,
 * vLLM, torchtitan. Octet does not take them, it answers with its own word.
 */
final class FieldWords {
    /** Octet's verb, and what others call it. */
    static final Map<String, List<String>> VERBS = table(
            "inspect: info, show, summary, summarize, list, ls, cat, dump, describe",
            "calibrate: calib, collect, observe",
            "quantize: quantise, ptq, oneshot, compress, quant, auto-quantize",
            "dequantize: dequantise, decompress, unpack, upcast",
            "merge: merge-and-unload, merge-lora, merge-adapter, apply-lora, fuse, unload",
            "verify: check, validate, lint, test",
            "diff: compare, cmp",
            "evaluate: eval, score, benchmark, accuracy",
            "plan: estimate, estimate-memory, memory, cost, calc, flops, size",
            "train: fit, finetune, fine-tune, tune, sft, qat, distill",
            "doctor: bisect, debug, diagnose, diagnosis, triage, debug-precision, precision-debug",
            "export: save, deploy");

    /** Octet's options, of several verbs, and what others call them. */
    static final Map<String, List<String>> OPTIONS = table(
            "keep: exclude, ignore, skip, exclude-modules, exclude-layers, ignore-layers, ignored-layers, skip-layers,"
                    + " skip-modules, disable, nodes-to-exclude, modules-to-not-convert, leave",
            "only: targets, modules, layers, include-only, filter, match, select, nodes-to-quantize",
            "calibration data: dataset, dataset-name, data-dir, data-path, data-file, data-files, calib, calib-data,"
                + " calib-dataset, calibration-data, calibration-dataset, train-file, validation-file, texts, inputs",
            "samples: num-samples, n-samples, nsamples, max-samples, num-calibration-samples, calib-size,"
                    + " calibration-size, max-eval-samples, limit",
            "max-length: max-seq-length, max-seq-len, max-sequence-length, seq-len, seq-length, sequence-length,"
                    + " seqlen, model-max-length, length",
            "recipe: scheme, qformat, quant-format, quant-mode, quantization, quant, quant-type, qtype, preset,"
                    + " method, mode, w-format, quant-algo",
            "target: layout, format, export-format, backend, engine, runtime, ep, execution-provider",
            "output: out, outfile, output-dir, output-path, output-file, output-model, save, save-dir, save-path,"
                    + " save-to, export-path, export-dir, dest, destination",
            "dtype: torch-dtype, type, precision, data-type, to",
            "scale-type: scale-dtype",
            "kv-cache: kv-cache-dtype, kv-cache-scheme, kv-cache-qformat, kv-cache-quant, kv-cache-quant-algo",
            "force: overwrite, overwrite-output-dir, overwrite-output, replace, yes",
            "threads: jobs, workers, num-workers, num-threads, num-proc, cpus, cores",
            "dry-run: plan, simulate, what-if, no-write",
            "rounding: gptq, weight-rounding, weight-algo",
            "calibrator: observer, calib-method, calibrate-method, calibration-method, clip, algorithm, algo",
            "statistics: stats, ranges, cache, calib-cache, calibration-cache, calibration-table",
            "report: html",
            "tokenizer: tokenizer-name, tokenizer-path, tokenizer-file, tokenizer-json",
            "memory: max-memory, memory-limit, ram",
            "for: consumer, consumers, reader, readers",
            "tp: tensor-parallel, tensor-parallel-size, tp-size, world-size",
            "against: reference, original, base, baseline, base-model",
            "gate: threshold, fail-under, min-cosine, assert",
            "deep: full, thorough, strict",
            "quiet: silent, no-progress",
            "opset: opset-version, target-opset",
            "device: gpu, cuda, accelerator",
            "resume: continue, resume-from-checkpoint, restart",
            "config: config-file, config-path, yaml, cfg, args",
            "steps: max-steps, num-steps, iterations, max-iters",
            "step: checkpoint, ckpt, checkpoint-step",
            "tensors: weights, list-tensors, names, keys",
            "rename: map, name-map, mapping");

    private FieldWords() {}

    /** Lines of {@code ours: theirs, theirs}; several of ours with a space between, in the order to suggest them. */
    private static Map<String, List<String>> table(String... lines) {
        Map<String, List<String>> table = new LinkedHashMap<>();
        for (String line : lines) {
            String[] sides = line.split(": ", 2);
            table.put(sides[0], List.of(sides[1].split(", ", -1)));
        }
        return Map.copyOf(table);
    }

    /** Octet's words for {@code typed}, of those in {@code valid}; empty when no tool says so, or none of them is valid here. */
    static List<String> ours(String typed, Map<String, List<String>> table, Collection<String> valid) {
        String word = typed.replace('_', '-');
        return table.entrySet().stream()
                .filter(e -> e.getValue().contains(word))
                .flatMap(e -> Stream.of(e.getKey().split(" ")))
                .filter(valid::contains)
                .toList();
    }

    /** Whether another tool has the word, so that no word of similar letters is meant. */
    static boolean isKnown(String typed, Map<String, List<String>> table) {
        String word = typed.replace('_', '-');
        return table.values().stream().anyMatch(w -> w.contains(word));
    }

    /**
     * What to write for {@code typed}: Octet's word for it, else a word of similar letters, else {@code otherwise}.
     *
     * @param dashes before each word, {@code --} for options
     */
    static String advice(
            String typed, Map<String, List<String>> table, Collection<String> valid, String dashes, String otherwise) {
        List<String> ours = ours(typed, table, valid);
        List<String> meant = !ours.isEmpty() || isKnown(typed, table) ? ours : Nearest.names(typed, valid);
        return meant.isEmpty()
                ? otherwise
                : meant.stream().map(w -> dashes + w).collect(Collectors.joining(", ", "did you mean ", "?"));
    }
}
