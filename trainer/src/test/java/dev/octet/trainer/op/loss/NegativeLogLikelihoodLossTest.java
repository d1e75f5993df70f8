package dev.octet.trainer.op.loss;

import dev.octet.trainer.op.TwinTest;
import java.util.List;

class NegativeLogLikelihoodLossTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return SoftmaxCrossEntropyLossTest.variants("nll", (c, second) -> new NegativeLogLikelihoodLoss(c));
    }
}
