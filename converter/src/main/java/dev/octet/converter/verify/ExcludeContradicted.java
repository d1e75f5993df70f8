package dev.octet.converter.verify;

/** Modules that are left out by the configuration and quantised in the file. */
final class ExcludeContradicted extends CheckpointRule {
    ExcludeContradicted() {
        super(
                "exclude-contradicted",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "A module that the configuration leaves out is not quantised: loaders take its codes for values.",
                "remove the pattern from the list, or put the weight back as it was",
                "vllm-project/vllm#44081, vllm-project/vllm#45132, vllm-project/vllm#21669");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized()
                .filter(l -> subject.exclusions().match(l.module()))
                .forEach(l -> findings.add(
                        this,
                        "a module is left out by the configuration, and quantised",
                        l.module(),
                        String.valueOf(l.weight() == null ? "" : l.weight().dtype())));
    }
}
