package dev.octet.converter.verify;

/** Scales of shape [1, 1]. */
final class ScaleOneByOne extends CheckpointRule {
    ScaleOneByOne() {
        super(
                "scale-1x1",
                Severity.ERROR,
                Consumer.VLLM_LIKE,
                "A scale of a whole tensor has the shape [] or [1]: vLLM refuses [1, 1].",
                "reshape it to [1]",
                "vllm-project/vllm:vllm/model_executor/parameter.py, vllm-project/vllm#50617");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.scales()
                .filter(s -> s.tensor().shape().elementCount() == 1
                        && s.tensor().shape().rank() > 1
                        && isOfWholeTensor(s, subject))
                .forEach(s -> findings.add(
                        this,
                        "one number is stored as a matrix",
                        s.tensor().name(),
                        s.tensor().shape().toString()));
    }

    /** A weight of one block or one row has a grid of one scale, which is right. */
    private static boolean isOfWholeTensor(CheckpointSubject.Scale scale, CheckpointSubject subject) {
        QuantSettings.Group group = subject.settings().group(scale.layer().module());
        return group != null
                && (!scale.ofWeight()
                        || (group.weights() != null
                                && group.weights().strategy().equals("tensor")));
    }
}
