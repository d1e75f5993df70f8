package dev.octet.converter.verify;

import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;

/** One demand of one or more consumers, and how a model is checked for it. Stateless; one class for each rule. */
public abstract sealed class Rule permits CheckpointRule, WeightRule, GraphRule {
    private final String id;
    private final Severity severity;
    private final Set<Consumer> consumers;
    private final String demand;
    private final String fix;
    private final String source;

    /**
     * The words of a rule.
     *
     * @param id short, stable, in kebab case: what scripts filter by
     * @param severity of a finding, where the rule does not say otherwise
     * @param consumers who demands it
     * @param demand what is demanded, one line
     * @param fix what mends a breach, one line
     * @param source where the demand is known from: {@code owner/repository#number} of an issue or pull request, {@code
     *     owner/repository:path} of a file, or a specification; several with commas between them
     */
    Rule(String id, Severity severity, Set<Consumer> consumers, String demand, String fix, String source) {
        this.id = id;
        this.severity = severity;
        this.consumers = Collections.unmodifiableSet(EnumSet.copyOf(consumers));
        this.demand = demand;
        this.fix = fix;
        this.source = source;
    }

    /** Short and stable: {@code scale-missing}. */
    public final String id() {
        return id;
    }

    /** Of a finding, where the rule does not say otherwise. */
    public final Severity severity() {
        return severity;
    }

    /** Who demands it. */
    public final Set<Consumer> consumers() {
        return consumers;
    }

    /** What is demanded. One line. */
    public final String demand() {
        return demand;
    }

    /** What mends a breach. One line. */
    public final String fix() {
        return fix;
    }

    /** Where the demand is known from. */
    public final String source() {
        return source;
    }

    /** Whether it reads weights, and so runs only when asked to. */
    public boolean deep() {
        return false;
    }

    /** Whether it compares with the model that this one was made from. */
    public boolean needsOriginal() {
        return false;
    }
}
