package dev.octet.converter.gguf;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.UnsupportedModelException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The tokenizer in a GGUF file as {@code tokenizer.json} and {@code tokenizer_config.json}. Byte-level BPE ({@code gpt2}) has its merges in the file;
 * SentencePiece's BPE ({@code llama}) has scores, from which the merges follow: a piece of two pieces merges in the order of its score.
 */
final class TokenizerImport {
    static final String PREFIX = "tokenizer.ggml.";

    /** llama.cpp's token types. */
    static final int NORMAL = 1;

    static final int UNKNOWN = 2;
    static final int CONTROL = 3;
    static final int USER_DEFINED = 4;
    static final int UNUSED = 5;
    static final int BYTE = 6;

    /** SentencePiece's space. */
    static final String SPACE = "▁";

    private final GgufKeys keys;
    private final List<String> tokens;
    private final List<Long> types;

    private TokenizerImport(GgufKeys keys, List<String> tokens, List<Long> types) {
        this.keys = keys;
        this.tokens = tokens;
        this.types = types;
    }

    /**
     * Both files.
     *
     * @param tokenizer {@code tokenizer.json}
     * @param config {@code tokenizer_config.json}
     */
    record Files(ObjectNode tokenizer, ObjectNode config) {}

    /** Whether the file has a tokenizer. */
    static boolean isIn(GgufKeys keys) {
        return keys.header().value(PREFIX + "tokens").isPresent();
    }

    /**
     * Reads it.
     *
     * @throws UnsupportedModelException when its kind, or how it splits texts, is not known
     * @throws dev.octet.formats.error.MalformedModelException when its lists contradict each other
     */
    static Files read(GgufKeys keys) {
        List<String> tokens = keys.texts(PREFIX + "tokens");
        List<Long> types = keys.wholes(PREFIX + "token_type");
        if (!types.isEmpty() && types.size() != tokens.size()) {
            throw keys.malformed("there are " + tokens.size() + " tokens and " + types.size() + " types of tokens");
        }
        return new TokenizerImport(keys, tokens, types).files();
    }

    private Files files() {
        String model = keys.requiredText(PREFIX + "model");
        ObjectNode json = JsonNodeFactory.instance.objectNode().put("version", "1.0");
        json.putNull("truncation").putNull("padding");
        addedTokens(json.putArray("added_tokens"));
        switch (model) {
            case "gpt2" -> byteLevel(json);
            case "llama" -> sentencePiece(json);
            default ->
                throw new UnsupportedModelException(
                        "tokenizer.ggml.model is '" + model + "'",
                        keys.where(),
                        "known are gpt2 (byte-level BPE) and llama (SentencePiece); take tokenizer.json of the"
                                + " original model");
        }
        return new Files(json, config());
    }

    private int type(int token) {
        if (types.isEmpty()) {
            return NORMAL;
        }
        long type = types.get(token);
        if (type < 0 || type > BYTE) {
            throw keys.malformed("the type of token " + token + " is " + Long.toUnsignedString(type));
        }
        return (int) type;
    }

    private void addedTokens(ArrayNode added) {
        for (int t = 0; t < tokens.size(); t++) {
            int type = type(t);
            if (type == CONTROL || type == USER_DEFINED || type == UNKNOWN) {
                added.addObject()
                        .put("id", t)
                        .put("content", tokens.get(t))
                        .put("single_word", false)
                        .put("lstrip", false)
                        .put("rstrip", false)
                        .put("normalized", false)
                        .put("special", type != USER_DEFINED);
            }
        }
    }

    private void byteLevel(ObjectNode json) {
        String pre = keys.text(PREFIX + "pre").orElse("");
        if (pre.isEmpty() || pre.equals("default")) {
            throw new UnsupportedModelException(
                    "tokenizer.ggml.pre is " + (pre.isEmpty() ? "missing" : "'default'")
                            + ": llama.cpp splits such texts at punctuation first and into three digits",
                    keys.where(),
                    "convert the original model again with a current llama.cpp, which names how texts are split");
        }
        PreTokenizer split = PreTokenizer.named(pre)
                .orElseThrow(() -> new UnsupportedModelException(
                        "tokenizer.ggml.pre is '" + pre + "': how it splits texts is not known here",
                        keys.where(),
                        "known are " + PreTokenizer.known()
                                + "; take tokenizer.json of the original model and give --tokenizer"));
        if (split == PreTokenizer.QWEN2) {
            json.putObject("normalizer").put("type", "NFC");
        } else {
            json.putNull("normalizer");
        }
        json.set("pre_tokenizer", split.json());
        postProcessor(json);
        json.putObject("decoder")
                .put("type", "ByteLevel")
                .put("add_prefix_space", true)
                .put("trim_offsets", true)
                .put("use_regex", true);
        ObjectNode model = json.putObject("model")
                .put("type", "BPE")
                .putNull("dropout")
                .putNull("unk_token")
                .put("continuing_subword_prefix", "")
                .put("end_of_word_suffix", "")
                .put("fuse_unk", false)
                .put("byte_fallback", false)
                .put("ignore_merges", split == PreTokenizer.LLAMA3);
        vocabulary(model.putObject("vocab"));
        ArrayNode merges = model.putArray("merges");
        for (String merge : keys.texts(PREFIX + "merges")) {
            int space = merge.indexOf(' ', 1);
            if (space < 0) {
                throw keys.malformed("the merge '" + merge + "' is not two tokens");
            }
            merges.addArray().add(merge.substring(0, space)).add(merge.substring(space + 1));
        }
    }

    private void vocabulary(ObjectNode vocabulary) {
        for (int t = 0; t < tokens.size(); t++) {
            if (vocabulary.replace(tokens.get(t), vocabulary.numberNode(t)) != null) {
                throw keys.malformed("the token '" + tokens.get(t) + "' is there twice");
            }
        }
    }

    private void sentencePiece(ObjectNode json) {
        boolean prefix = keys.truth(PREFIX + "add_space_prefix").orElse(true);
        ObjectNode replace = JsonNodeFactory.instance.objectNode().put("type", "Replace");
        replace.putObject("pattern").put("String", " ");
        replace.put("content", SPACE);
        if (prefix) {
            ArrayNode steps =
                    json.putObject("normalizer").put("type", "Sequence").putArray("normalizers");
            steps.addObject().put("type", "Prepend").put("prepend", SPACE);
            steps.add(replace);
        } else {
            json.set("normalizer", replace);
        }
        json.putNull("pre_tokenizer");
        postProcessor(json);
        ArrayNode decoders = json.putObject("decoder").put("type", "Sequence").putArray("decoders");
        ObjectNode back = decoders.addObject().put("type", "Replace");
        back.putObject("pattern").put("String", SPACE);
        back.put("content", " ");
        decoders.addObject().put("type", "ByteFallback");
        decoders.addObject().put("type", "Fuse");
        if (prefix) {
            decoders.addObject()
                    .put("type", "Strip")
                    .put("content", " ")
                    .put("start", 1)
                    .put("stop", 0);
        }
        ObjectNode model = json.putObject("model").put("type", "BPE").putNull("dropout");
        keys.whole(PREFIX + "unknown_token_id")
                .ifPresentOrElse(id -> model.put("unk_token", token(id, "unknown")), () -> model.putNull("unk_token"));
        model.putNull("continuing_subword_prefix")
                .putNull("end_of_word_suffix")
                .put("fuse_unk", true)
                .put("byte_fallback", true)
                .put("ignore_merges", false);
        vocabulary(model.putObject("vocab"));
        merges(model.putArray("merges"));
    }

    /** A pair of pieces that are one piece together, and its score. */
    private record Merge(String left, String right, double score) {}

    private void merges(ArrayNode array) {
        List<Double> scores = keys.numbers(PREFIX + "scores");
        if (scores.size() != tokens.size()) {
            throw keys.malformed("there are " + tokens.size() + " tokens and " + scores.size() + " scores");
        }
        Map<String, Integer> ids = new HashMap<>();
        for (int t = 0; t < tokens.size(); t++) {
            if (type(t) == NORMAL || type(t) == USER_DEFINED || type(t) == UNUSED) {
                ids.put(tokens.get(t), t);
            }
        }
        List<Merge> merges = new ArrayList<>();
        for (int t = 0; t < tokens.size(); t++) {
            String piece = tokens.get(t);
            if (piece.isEmpty() || !ids.containsKey(piece)) {
                continue;
            }
            List<Merge> splits = new ArrayList<>();
            for (int at = piece.offsetByCodePoints(0, 1); at < piece.length(); at = piece.offsetByCodePoints(at, 1)) {
                String left = piece.substring(0, at);
                String right = piece.substring(at);
                if (ids.containsKey(left) && ids.containsKey(right)) {
                    splits.add(new Merge(left, right, scores.get(t)));
                }
            }
            splits.sort(
                    Comparator.<Merge>comparingInt(m -> ids.get(m.left())).thenComparingInt(m -> ids.get(m.right())));
            merges.addAll(splits);
        }
        merges.sort(Comparator.comparingDouble(Merge::score).reversed());
        merges.forEach(m -> array.addArray().add(m.left()).add(m.right()));
    }

    private String token(long id, String what) {
        if (id < 0 || id >= tokens.size()) {
            throw keys.malformed("the " + what + " token is " + id + ", there are " + tokens.size());
        }
        return tokens.get((int) id);
    }

    private boolean adds(String which) {
        // as llama.cpp: SentencePiece's models begin with the token, and of the others those split as Llama 3
        boolean pieces = keys.text(PREFIX + "model").orElse("").equals("llama");
        Optional<PreTokenizer> split =
                pieces ? Optional.empty() : keys.text(PREFIX + "pre").flatMap(PreTokenizer::named);
        boolean fallback = which.equals("bos") && (pieces || split.equals(Optional.of(PreTokenizer.LLAMA3)));
        return keys.truth(PREFIX + "add_" + which + "_token").orElse(fallback);
    }

    private OptionalLong id(String which) {
        return keys.whole(PREFIX + which + "_token_id");
    }

    /** Puts the tokens for begin and end around a text where the model was trained so. */
    private void postProcessor(ObjectNode json) {
        boolean bos = adds("bos") && id("bos").isPresent();
        boolean eos = adds("eos") && id("eos").isPresent();
        if (!bos && !eos) {
            json.putNull("post_processor");
            return;
        }
        ObjectNode template = json.putObject("post_processor").put("type", "TemplateProcessing");
        around(template.putArray("single"), List.of("A"), bos, eos);
        around(template.putArray("pair"), List.of("A", "B"), bos, eos);
        ObjectNode special = template.putObject("special_tokens");
        if (bos) {
            special(special, "bos");
        }
        if (eos) {
            special(special, "eos");
        }
    }

    private void around(ArrayNode template, List<String> sequences, boolean bos, boolean eos) {
        for (int s = 0; s < sequences.size(); s++) {
            if (bos) {
                part(template, "SpecialToken", token(id("bos").orElseThrow(), "bos"), s);
            }
            part(template, "Sequence", sequences.get(s), s);
            if (eos) {
                part(template, "SpecialToken", token(id("eos").orElseThrow(), "eos"), s);
            }
        }
    }

    private static void part(ArrayNode template, String kind, String id, int type) {
        template.addObject().putObject(kind).put("id", id).put("type_id", type);
    }

    private void special(ObjectNode special, String which) {
        long id = id(which).orElseThrow();
        String token = token(id, which);
        ObjectNode entry = special.putObject(token).put("id", token);
        entry.putArray("ids").add(id);
        entry.putArray("tokens").add(token);
    }

    private ObjectNode config() {
        ObjectNode config = JsonNodeFactory.instance.objectNode().put("tokenizer_class", "PreTrainedTokenizerFast");
        for (Map.Entry<String, String> e : Map.of(
                        "bos", "bos_token", "eos", "eos_token", "unknown", "unk_token", "padding", "pad_token")
                .entrySet()) {
            id(e.getKey()).ifPresent(id -> config.put(e.getValue(), token(id, e.getKey())));
        }
        config.put("add_bos_token", adds("bos")).put("add_eos_token", adds("eos"));
        config.put("clean_up_tokenization_spaces", false);
        keys.text("tokenizer.chat_template").ifPresent(t -> config.put("chat_template", t));
        return config;
    }
}
