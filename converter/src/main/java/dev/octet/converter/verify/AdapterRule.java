package dev.octet.converter.verify;

/** A rule about an adapter, which its configuration, its tensors and perhaps its base decide. */
final class AdapterRule extends Rule {
    /** Reports every breach. */
    @FunctionalInterface
    interface Check {
        void check(AdapterSubject subject, Report report);
    }

    private final Check check;

    AdapterRule(Demand demand, Check check) {
        super(demand);
        this.check = check;
    }

    /** Reports every breach. */
    void check(AdapterSubject subject, Findings findings) {
        check.check(subject, new Report(this, findings));
    }
}
