package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.LinearModules;
import dev.octet.converter.checkpoint.TensorRole;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;

/** Linear modules of a consumer's model that the configuration covers and whose weight the checkpoint lacks, or has under another name. */
final class LinearUnstored {
    static final CheckpointRule RULE = Demand.error("linear-unstored", Consumer.OF_CHECKPOINTS)
            .text("A Linear whose weight is not in the checkpoint (a tied head), or is stored under another"
                    + " name, is left out of the quantisation by its name in the model: otherwise its scale is"
                    + " missing and outputs are NaN.")
            .fix("add the module to ignore (compressed-tensors) or exclude_modules (modelopt)")
            .source("huggingface/transformers:src/transformers/quantizers/quantizer_compressed_tensors.py,"
                    + " vllm-project/compressed-tensors:src/compressed_tensors/utils/match.py,"
                    + " vllm-project/vllm:vllm/model_executor/layers/quantization/modelopt.py")
            .onCheckpoints(LinearUnstored::check);

    /** It quantises every module of class Linear that the list does not name as the model does. */
    private static final Set<Consumer> BY_CLASS = EnumSet.of(Consumer.TRANSFORMERS);

    /** They give a head that is not named a quantised method, whose scale is never loaded. */
    private static final Set<Consumer> BY_NAME = Consumer.ENGINES;

    private LinearUnstored() {}

    private static void check(CheckpointSubject subject, Report report) {
        QuantSettings settings = subject.settings();
        boolean byClass = settings.method() == QuantSettings.Method.COMPRESSED_TENSORS;
        if (!subject.complete() || !(byClass || settings.method() == QuantSettings.Method.MODELOPT)) {
            return;
        }
        Set<Consumer> readers = byClass ? BY_CLASS : BY_NAME;
        LinearModules modules = LinearModules.of(subject.config());
        for (String module : modules.unstored(subject.storedModules())) {
            // one represents many: lists have an expression for them
            String one = module.replace('*', '0');
            if (settings.targets(one) && !isLeftOut(subject, one)) {
                report.add(readers, "a Linear without a tensor of its own is not left out", module, "");
            }
        }
        if (byClass) {
            subject.layers().values().stream()
                    .filter(l -> l.isPlain() && isLeftOut(subject, l.module()))
                    .filter(l -> l.role() == TensorRole.LINEAR
                            || l.role() == TensorRole.HEAD
                            || l.role() == TensorRole.ROUTER)
                    .forEach(l -> checkRenamed(l.module(), modules.renamed(l.module()), subject, report));
        }
    }

    private static void checkRenamed(String module, List<String> names, CheckpointSubject subject, Report report) {
        if (!names.isEmpty() && names.stream().noneMatch(n -> isLeftOut(subject, n))) {
            report.add(
                    BY_CLASS,
                    "a Linear is left out by a name that it does not have in the model",
                    module,
                    "there " + names.getFirst());
        }
    }

    private static boolean isLeftOut(CheckpointSubject subject, String module) {
        return subject.settings().method() == QuantSettings.Method.COMPRESSED_TENSORS
                ? subject.exclusions().names(module)
                : subject.exclusions().match(module);
    }
}
