package dev.octet.converter.verify;

import java.io.IOException;
import java.util.Set;

/** A rule about the values of one quantised weight; all of these share one walk over the weights. */
abstract non-sealed class WeightRule extends Rule {
    WeightRule(String id, Severity severity, Set<Consumer> consumers, String demand, String fix, String source) {
        super(id, severity, consumers, demand, fix, source);
    }

    /** Reports every breach of one weight. */
    abstract void check(WeightFacts weight, CheckpointSubject subject, Findings findings) throws IOException;

    @Override
    public boolean deep() {
        return true;
    }
}
