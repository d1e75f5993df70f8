package dev.octet.converter.verify;

import java.util.EnumSet;
import java.util.Set;

/**
 * The words of a rule, and what its check needs.
 *
 * @param id short, stable, in kebab case: what scripts filter by
 * @param severity of a finding, unless the rule chooses another
 * @param consumers who demands it
 * @param text the demand, one line
 * @param fix how to fix a breach, one line
 * @param source evidence of the demand: {@code owner/repository#number} of an issue or pull request, {@code
 *     owner/repository:path} of a file, or a specification; several with commas between them
 * @param deep whether it reads weights, and so runs only when asked to
 * @param needsOriginal whether it compares with the model that this one was made from
 */
record Demand(
        String id,
        Severity severity,
        Set<Consumer> consumers,
        String text,
        String fix,
        String source,
        boolean deep,
        boolean needsOriginal) {
    Demand {
        consumers = Consumer.set(consumers);
    }

    static Demand error(String id, Set<Consumer> consumers) {
        return new Demand(id, Severity.ERROR, consumers, "", "", "", false, false);
    }

    static Demand error(String id, Consumer first, Consumer... more) {
        return error(id, EnumSet.of(first, more));
    }

    static Demand warning(String id, Set<Consumer> consumers) {
        return new Demand(id, Severity.WARNING, consumers, "", "", "", false, false);
    }

    static Demand warning(String id, Consumer first, Consumer... more) {
        return warning(id, EnumSet.of(first, more));
    }

    static Demand advice(String id, Set<Consumer> consumers) {
        return new Demand(id, Severity.ADVICE, consumers, "", "", "", false, false);
    }

    Demand text(String words) {
        return new Demand(id, severity, consumers, words, fix, source, deep, needsOriginal);
    }

    Demand fix(String words) {
        return new Demand(id, severity, consumers, text, words, source, deep, needsOriginal);
    }

    Demand source(String where) {
        return new Demand(id, severity, consumers, text, fix, where, deep, needsOriginal);
    }

    /** Runs only when weights are to be read. */
    Demand readingWeights() {
        return new Demand(id, severity, consumers, text, fix, source, true, needsOriginal);
    }

    /** Runs only when the original is given. */
    Demand withOriginal() {
        return new Demand(id, severity, consumers, text, fix, source, deep, true);
    }

    /** The rule on checkpoints. */
    CheckpointRule onCheckpoints(CheckpointRule.Check check) {
        return new CheckpointRule(this, check);
    }

    /** The rule on each quantised weight, which always reads weights. */
    WeightRule onWeights(WeightRule.Check check) {
        return new WeightRule(readingWeights(), check);
    }

    /** The rule on adapters. */
    AdapterRule onAdapters(AdapterRule.Check check) {
        return new AdapterRule(this, check);
    }

    /** The rule on ONNX graphs. */
    GraphRule onGraphs(GraphRule.Check check) {
        return new GraphRule(this, check);
    }
}
