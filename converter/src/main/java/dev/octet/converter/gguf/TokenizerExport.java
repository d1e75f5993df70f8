package dev.octet.converter.gguf;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.gguf.GgufKind;
import dev.octet.formats.gguf.GgufValue;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/** {@code tokenizer.json} of a folder as keys of a GGUF file. */
final class TokenizerExport {
    private static final String TOKENIZER = "tokenizer.json";
    private static final String CONFIG = "tokenizer_config.json";
    private static final String TEMPLATE = "chat_template.jinja";
    private static final String PREFIX = TokenizerImport.PREFIX;

    /** Those of the largest vocabularies have some 35 MB. */
    private static final long MAX_TOKENIZER_BYTES = 256L << 20;

    private final Path folder;
    private final ObjectNode json;
    private final ObjectNode config;
    private final ObjectNode model;

    private TokenizerExport(Path folder, ObjectNode json, ObjectNode config, ObjectNode model) {
        this.folder = folder;
        this.json = json;
        this.config = config;
        this.model = model;
    }

    /**
     * The keys; none where the folder has no {@code tokenizer.json}.
     *
     * @param model {@code config.json} of the model
     * @param vocabulary rows of the embedding; tokens that are missing up to it are filled in as unused
     * @throws UnsupportedModelException when llama.cpp would tokenise otherwise
     */
    static SequencedMap<String, GgufValue> read(Path folder, ObjectNode model, int vocabulary) throws IOException {
        Optional<ObjectNode> json = ModelConfig.read(folder, TOKENIZER, MAX_TOKENIZER_BYTES);
        if (json.isEmpty()) {
            return Collections.emptyNavigableMap();
        }
        ObjectNode config = ModelConfig.read(folder, CONFIG).orElseGet(model::objectNode);
        return new TokenizerExport(folder, json.get(), config, model).keys(vocabulary);
    }

    private UnsupportedModelException unsupported(String what) {
        return new UnsupportedModelException(
                what,
                folder.resolve(TOKENIZER).toString(),
                "llama.cpp would split texts otherwise; write the model without its tokenizer by --no-tokenizer");
    }

    private SequencedMap<String, GgufValue> keys(int vocabulary) throws IOException {
        JsonNode bpe = json.path("model");
        if (!bpe.path("type").asText("BPE").equals("BPE") || !bpe.path("vocab").isObject()) {
            throw unsupported("the tokenizer is a " + bpe.path("type").asText("?") + ", not BPE");
        }
        boolean pieces = bpe.path("byte_fallback").asBoolean();
        boolean prefix = pieces
                && SpacePrefix.of(json)
                        .orElseThrow(() -> unsupported("how the tokenizer treats spaces (normalizer, pre_tokenizer) is"
                                + " not SentencePiece's way"));
        Map<String, Integer> types = new HashMap<>();
        List<@Nullable String> tokens = tokens(bpe.path("vocab"), vocabulary, types);
        for (int t = 0; t < tokens.size(); t++) {
            if (tokens.get(t) == null) {
                tokens.set(t, "[PAD" + t + "]");
                types.put("[PAD" + t + "]", TokenizerImport.UNUSED);
            } else if (pieces && tokens.get(t).matches("<0x[0-9A-F]{2}>")) {
                types.put(tokens.get(t), TokenizerImport.BYTE);
            }
        }
        SequencedMap<String, GgufValue> keys = new LinkedHashMap<>();
        keys.put(PREFIX + "model", GgufValue.of(pieces ? "llama" : "gpt2"));
        keys.put(PREFIX + "pre", GgufValue.of(pieces ? "default" : split().written()));
        List<String> all = tokens.stream().map(String::valueOf).toList();
        String unknown = bpe.path("unk_token").asText("");
        keys.put(PREFIX + "tokens", GgufValue.ofTexts(all));
        if (pieces) {
            keys.put(PREFIX + "scores", scores(all, merges(bpe), types));
        }
        keys.put(
                PREFIX + "token_type",
                new GgufValue.Sequence(
                        GgufKind.I32,
                        all.stream()
                                .<GgufValue>map(t -> new GgufValue.Whole(
                                        GgufKind.I32,
                                        pieces && t.equals(unknown)
                                                ? TokenizerImport.UNKNOWN
                                                : types.getOrDefault(t, TokenizerImport.NORMAL)))
                                .toList()));
        if (!pieces) {
            keys.put(
                    PREFIX + "merges",
                    GgufValue.ofTexts(merges(bpe).stream().map(Pair::text).toList()));
        }
        specials(keys, all, unknown);
        if (pieces) {
            keys.put(PREFIX + "add_space_prefix", GgufValue.of(prefix));
        }
        template().ifPresent(t -> keys.put("tokenizer.chat_template", GgufValue.of(t)));
        return keys;
    }

    private List<@Nullable String> tokens(JsonNode vocab, int vocabulary, Map<String, Integer> types) {
        List<@Nullable String> tokens = new ArrayList<>(Collections.nCopies(vocabulary, null));
        vocab.properties().forEach(e -> put(tokens, e.getKey(), e.getValue().asInt(-1)));
        for (JsonNode added : json.path("added_tokens")) {
            String content = added.path("content").asText();
            put(tokens, content, added.path("id").asInt(-1));
            types.put(
                    content,
                    added.path("special").asBoolean() ? TokenizerImport.CONTROL : TokenizerImport.USER_DEFINED);
        }
        return tokens;
    }

    private void put(List<@Nullable String> tokens, String token, int id) {
        if (id < 0 || id >= tokens.size()) {
            throw new MalformedModelException(
                    "token '" + token + "' has the number " + id + ", the embedding has " + tokens.size() + " rows",
                    folder.resolve(TOKENIZER).toString(),
                    "put the tokenizer of this model there");
        }
        tokens.set(id, token);
    }

    private PreTokenizer split() {
        String normalizer = json.path("normalizer").path("type").asText("");
        PreTokenizer split = PreTokenizer.of(json.path("pre_tokenizer"))
                .orElseThrow(() ->
                        unsupported("how the tokenizer splits texts (pre_tokenizer) has no name in llama.cpp here"));
        boolean nfc = normalizer.equals("NFC");
        if (!normalizer.isEmpty() && !(nfc && split == PreTokenizer.QWEN2)) {
            throw unsupported("the tokenizer normalises texts by " + normalizer);
        }
        return split;
    }

    /** Two tokens that become one. */
    private record Pair(String left, String right) {
        String text() {
            return left + " " + right;
        }
    }

    private List<Pair> merges(JsonNode bpe) {
        List<Pair> pairs = new ArrayList<>();
        for (JsonNode merge : bpe.path("merges")) {
            if (merge.isArray()) {
                pairs.add(new Pair(merge.path(0).asText(), merge.path(1).asText()));
            } else {
                int space = merge.asText().indexOf(' ', 1);
                if (space < 0) {
                    throw new MalformedModelException(
                            "the merge '" + merge.asText() + "' is not two tokens",
                            folder.resolve(TOKENIZER).toString(),
                            "put the tokenizer of this model there");
                }
                pairs.add(new Pair(
                        merge.asText().substring(0, space), merge.asText().substring(space + 1)));
            }
        }
        return pairs;
    }

    /** A piece merges before another whose score is less: the score of a piece is minus the place of its first merge. */
    private static GgufValue scores(List<String> tokens, List<Pair> merges, Map<String, Integer> types) {
        Map<String, Integer> places = new HashMap<>();
        for (Pair p : merges) {
            places.putIfAbsent(p.left() + p.right(), places.size());
        }
        return new GgufValue.Sequence(
                GgufKind.F32,
                tokens.stream()
                        .map(t -> types.containsKey(t) ? 0 : -(float) places.getOrDefault(t, merges.size()))
                        .map(GgufValue::of)
                        .toList());
    }

    private void specials(SequencedMap<String, GgufValue> keys, List<String> tokens, String unknown) {
        Map<String, Integer> ids = new HashMap<>();
        for (int t = 0; t < tokens.size(); t++) {
            ids.put(tokens.get(t), t);
        }
        special(keys, "bos", "bos_token", ids);
        special(keys, "eos", "eos_token", ids);
        special(keys, "padding", "pad_token", ids);
        if (ids.containsKey(unknown)) {
            keys.put(PREFIX + "unknown_token_id", GgufValue.of(ids.get(unknown)));
        }
        keys.put(PREFIX + "add_bos_token", GgufValue.of(adds("bos_token", ids)));
        keys.put(PREFIX + "add_eos_token", GgufValue.of(adds("eos_token", ids)));
    }

    private void special(SequencedMap<String, GgufValue> keys, String name, String field, Map<String, Integer> ids) {
        Integer id = ids.get(tokenOf(field));
        JsonNode given = model.path(field + "_id");
        if (id == null && given.isArray()) {
            given = given.path(0); // several ends: the first is the usual one
        }
        if (id == null && given.isInt() && given.asInt() >= 0 && given.asInt() < ids.size()) {
            id = given.asInt();
        }
        if (id != null) {
            keys.put(PREFIX + name + "_token_id", GgufValue.of(id));
        }
    }

    private String tokenOf(String field) {
        JsonNode token = config.path(field);
        return token.isObject() ? token.path("content").asText() : token.asText("");
    }

    /** Whether the template puts the token before (bos) or behind (eos) a text. */
    private boolean adds(String field, Map<String, Integer> ids) {
        String token = tokenOf(field);
        JsonNode post = json.path("post_processor");
        List<JsonNode> steps = post.path("type").asText().equals("Sequence")
                ? post.path("processors").valueStream().toList()
                : List.of(post);
        return ids.containsKey(token)
                && steps.stream()
                        .flatMap(s -> s.path("single").valueStream())
                        .anyMatch(
                                p -> p.path("SpecialToken").path("id").asText().equals(token));
    }

    private Optional<String> template() throws IOException {
        Path file = folder.resolve(TEMPLATE);
        if (Files.isRegularFile(file)) {
            return Optional.of(Files.readString(file));
        }
        JsonNode template = config.path("chat_template");
        return template.isTextual() ? Optional.of(template.asText()) : Optional.empty();
    }
}
