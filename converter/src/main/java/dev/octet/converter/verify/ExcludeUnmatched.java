package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.LinearModules;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.TensorRole;
import java.util.LinkedHashSet;
import java.util.Set;

/** Patterns of modules to leave out that match nothing. */
final class ExcludeUnmatched extends CheckpointRule {
    ExcludeUnmatched() {
        super(
                "exclude-unmatched",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "Every pattern of modules that are not quantised matches a module.",
                "name modules as the checkpoint does: their weights' names without .weight",
                "vllm-project/vllm#21669, vllm-project/vllm#44628, vllm-project/vllm#54547,"
                        + " huggingface/transformers#48349");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.exclusions().texts().isEmpty() || !subject.complete()) {
            return;
        }
        Set<String> modules = new LinkedHashSet<>();
        for (String module : subject.layers().keySet()) {
            // paths of blocks count too: a pattern may leave out all that is in one
            for (String path = module; !path.isEmpty() && modules.add(path); ) {
                int dot = path.lastIndexOf('.');
                path = dot < 0 ? "" : path.substring(0, dot);
            }
        }
        subject.checkpoint().tensors().values().stream()
                .filter(t -> t.shape().rank() == 3 && LinearNames.role(t.name(), t.shape()) == TensorRole.FUSED_EXPERTS)
                .forEach(t -> modules.add(t.name()));
        // consumers have names of their own for some modules, and modules without a tensor
        LinearModules known = LinearModules.of(subject.config());
        Set<String> stored = subject.storedModules();
        modules.addAll(known.otherNames(modules, stored));
        known.unstored(stored).forEach(m -> modules.add(m.replace('*', '0')));
        for (String pattern : subject.exclusions().unmatched(modules)) {
            findings.add(this, "a pattern of modules to leave out matches nothing", pattern, "");
        }
    }
}
