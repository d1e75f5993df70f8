package dev.octet.converter.verify;

import java.io.IOException;

/** A rule about a checkpoint that headers, configuration and small scales decide. */
final class CheckpointRule extends Rule {
    /** Reports every breach. */
    @FunctionalInterface
    interface Check {
        void check(CheckpointSubject subject, Report report) throws IOException;
    }

    private final Check check;

    CheckpointRule(Demand demand, Check check) {
        super(demand);
        this.check = check;
    }

    /** Reports every breach. */
    void check(CheckpointSubject subject, Findings findings) throws IOException {
        check.check(subject, new Report(this, findings));
    }
}
