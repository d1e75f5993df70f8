package dev.octet.converter.verify;

import java.io.IOException;
import java.util.Set;

/** A rule about a checkpoint that headers, configuration and small scales decide. */
abstract non-sealed class CheckpointRule extends Rule {
    CheckpointRule(String id, Severity severity, Set<Consumer> consumers, String demand, String fix, String source) {
        super(id, severity, consumers, demand, fix, source);
    }

    /** Reports every breach. */
    abstract void check(CheckpointSubject subject, Findings findings) throws IOException;
}
