package dev.octet.converter.verify;

import java.util.Set;

/** Where one rule reports its breaches. */
record Report(Rule rule, Findings findings) {
    /** A breach with the rule's own severity, for all its consumers. */
    void add(String what, String where, String detail) {
        add(rule.severity(), rule.consumers(), what, where, detail);
    }

    /** A breach for all the rule's consumers. */
    void add(Severity severity, String what, String where, String detail) {
        add(severity, rule.consumers(), what, where, detail);
    }

    /** A breach with the rule's own severity. */
    void add(Set<Consumer> consumers, String what, String where, String detail) {
        add(rule.severity(), consumers, what, where, detail);
    }

    /**
     * A breach.
     *
     * @param what what is wrong; the same words for all alike places, so without names and numbers of one place
     * @param where tensor, file, module, node
     * @param detail the numbers of this place; may be empty
     */
    void add(Severity severity, Set<Consumer> consumers, String what, String where, String detail) {
        findings.add(rule, severity, consumers, what, where, detail);
    }
}
