package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What stands behind the layers of encoders of tokens. */
final class EncoderHeads {
    private EncoderHeads() {}

    /** The last layer's output as the model's. */
    static void bare(GraphDraft draft, String x, int hidden) {
        draft.output(HfImporter.BARE_OUTPUT, x, Tokens.BATCH, Tokens.SEQUENCE, Dim.of(hidden));
    }

    /** The first token of each sample, [batch, hidden]. */
    static String first(GraphDraft draft, String path, String x) {
        return draft.op(
                path + "/Gather", "Gather", List.of(x, draft.longs("zero", Shape.of(), 0)), Attribute.of("axis", 1));
    }

    /** A Linear over the first token, and a hyperbolic tangent: BERT's pooler. */
    static String pooled(GraphDraft draft, String module, String x, int hidden) {
        String path = GraphDraft.path(module);
        String dense = draft.linear(module + ".dense", first(draft, path, x), hidden, hidden, true);
        return draft.op(path + "/activation/Tanh", "Tanh", List.of(dense));
    }

    /** The pooler as a second output, where the checkpoint has one. */
    static void optionalPooler(GraphDraft draft, String module, String x, int hidden) {
        if (draft.parameters().has(module + ".dense.weight")) {
            draft.output("pooler_output", pooled(draft, module, x, hidden), Tokens.BATCH, Dim.of(hidden));
        }
    }

    /** Takes note of a pooler that files of the hub keep although the class has none. */
    static void ignorePooler(GraphDraft draft, String module) {
        draft.parameters().account(module + ".dense.weight");
        draft.parameters().account(module + ".dense.bias");
    }

    /**
     * The classes of BERT and RoBERTa that differ in nothing: tokens, answers, and no head.
     *
     * @param pooler the module that only the last of these reads
     */
    static void besidePooler(
            EncoderClass head, GraphDraft draft, HfConfig config, String pooler, String x, int hidden) {
        switch (head) {
            case TOKENS -> {
                ignorePooler(draft, pooler);
                classesOfTokens(draft, config, "classifier", x, hidden);
            }
            case ANSWERS -> {
                ignorePooler(draft, pooler);
                answers(draft, config, "qa_outputs", x, hidden);
            }
            case BARE -> {
                bare(draft, x, hidden);
                optionalPooler(draft, pooler, x, hidden);
            }
            case MASKED_LM, SEQUENCES -> throw new IllegalArgumentException(head + " is the family's own");
        }
    }

    /** Scores of classes. */
    static void classes(GraphDraft draft, HfConfig config, String module, String x, int hidden) {
        int labels = Labels.count(config);
        draft.output("logits", draft.linear(module, x, hidden, labels, true), Tokens.BATCH, Dim.of(labels));
    }

    /** Scores of classes for each token. */
    static void classesOfTokens(GraphDraft draft, HfConfig config, String module, String x, int hidden) {
        int labels = Labels.count(config);
        String logits = draft.linear(module, x, hidden, labels, true);
        draft.output("logits", logits, Tokens.BATCH, Tokens.SEQUENCE, Dim.of(labels));
    }

    /** Scores of each token as the first of an answer, and as the last: two outputs [batch, sequence]. */
    static void answers(GraphDraft draft, HfConfig config, String module, String x, int hidden) {
        int labels = Labels.count(config);
        if (labels != 2) {
            throw config.unsupported("num_labels", Integer.toString(labels), "2, for the first token and the last");
        }
        List<String> ends = draft.split(GraphDraft.path(module), draft.linear(module, x, hidden, labels, true), 1, 1);
        for (int i = 0; i < 2; i++) {
            String scores = draft.op(
                    GraphDraft.path(module) + "/Squeeze",
                    "Squeeze",
                    List.of(ends.get(i), draft.longs("axes_2", Shape.of(1), 2)));
            draft.output(i == 0 ? "start_logits" : "end_logits", scores, Tokens.BATCH, Tokens.SEQUENCE);
        }
    }

    /**
     * The bias of BERT's head: it is tied as the weight is; files of transformers before 5 have one of both names where nothing is tied.
     *
     * @param module of the head
     */
    static String biasOfWords(HfConfig config, CheckpointParameters parameters, String module) {
        String own = module + ".decoder.bias";
        String shared = module + ".bias";
        boolean tied = config.flag(true, "tie_word_embeddings");
        String chosen = !tied && (parameters.has(own) || !parameters.has(shared)) ? own : shared;
        parameters.account(chosen.equals(own) ? shared : own);
        return chosen;
    }

    /**
     * Scores of all words for each token.
     *
     * @param decoder module of the Linear
     * @param bias its bias; null for none
     * @param embedding whose weight it has where the configuration ties it
     */
    static void words(
            GraphDraft draft,
            HfConfig config,
            String decoder,
            @Nullable String bias,
            String embedding,
            String x,
            int hidden) {
        String weight = TiedHead.weight(
                draft,
                config,
                config.flag(true, "tie_word_embeddings"),
                decoder + ".weight",
                embedding + ".weight",
                config.size("vocab_size"),
                hidden);
        words(draft, config, decoder, bias, weight, x);
    }

    /** The same with a weight that is among the graph's constants. */
    static void words(
            GraphDraft draft, HfConfig config, String decoder, @Nullable String bias, String weight, String x) {
        int vocabulary = config.size("vocab_size");
        String stored = bias == null ? null : draft.stored(bias, vocabulary);
        draft.output(
                "logits",
                draft.linear(decoder, x, weight, stored, 1),
                Tokens.BATCH,
                Tokens.SEQUENCE,
                Dim.of(vocabulary));
    }
}
