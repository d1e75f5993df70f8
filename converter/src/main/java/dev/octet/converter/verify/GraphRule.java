package dev.octet.converter.verify;

import java.util.Set;

/** A rule about an ONNX graph. */
abstract non-sealed class GraphRule extends Rule {
    GraphRule(String id, Severity severity, Set<Consumer> consumers, String demand, String fix, String source) {
        super(id, severity, consumers, demand, fix, source);
    }

    /** Reports every breach. */
    abstract void check(GraphSubject subject, Findings findings);
}
