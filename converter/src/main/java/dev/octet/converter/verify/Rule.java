package dev.octet.converter.verify;

import java.util.Set;

/** One demand of one or more consumers, and how a model is checked for it. Immutable. */
public abstract sealed class Rule permits CheckpointRule, WeightRule, GraphRule, AdapterRule {
    private final Demand demand;

    Rule(Demand demand) {
        this.demand = demand;
    }

    /** Short and stable: {@code scale-missing}. */
    public final String id() {
        return demand.id();
    }

    /** Of a finding, unless the rule chooses another. */
    public final Severity severity() {
        return demand.severity();
    }

    /** Who demands it. */
    public final Set<Consumer> consumers() {
        return demand.consumers();
    }

    /** The demand. One line. */
    public final String demand() {
        return demand.text();
    }

    /** How to fix a breach. One line. */
    public final String fix() {
        return demand.fix();
    }

    /** Evidence of the demand. */
    public final String source() {
        return demand.source();
    }

    /** Whether it reads weights, and so runs only when asked to. */
    public final boolean deep() {
        return demand.deep();
    }

    /** Whether it compares with the model that this one was made from. */
    public final boolean needsOriginal() {
        return demand.needsOriginal();
    }
}
