package dev.octet.converter.verify;

/** A rule about an ONNX graph. */
final class GraphRule extends Rule {
    /** Reports every breach. */
    @FunctionalInterface
    interface Check {
        void check(GraphSubject subject, Report report);
    }

    private final Check check;

    GraphRule(Demand demand, Check check) {
        super(demand);
        this.check = check;
    }

    /** Reports every breach. */
    void check(GraphSubject subject, Findings findings) {
        check.check(subject, new Report(this, findings));
    }
}
