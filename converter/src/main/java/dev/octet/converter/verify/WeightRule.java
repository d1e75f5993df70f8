package dev.octet.converter.verify;

import java.io.IOException;

/** A rule about the values of one quantised weight; all of these share one walk over the weights. */
final class WeightRule extends Rule {
    /** Reports every breach of one weight. */
    @FunctionalInterface
    interface Check {
        void check(WeightFacts weight, CheckpointSubject subject, Report report) throws IOException;
    }

    private final Check check;

    WeightRule(Demand demand, Check check) {
        super(demand);
        this.check = check;
    }

    /** Reports every breach of one weight. */
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) throws IOException {
        check.check(weight, subject, new Report(this, findings));
    }
}
