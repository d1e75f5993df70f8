package dev.octet.formats.megatron;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.JsonFault;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.pickle.PickleValue;
import dev.octet.formats.pickle.PickleValue.Bool;
import dev.octet.formats.pickle.PickleValue.Dict;
import dev.octet.formats.pickle.PickleValue.Instance;
import dev.octet.formats.pickle.PickleValue.Int;
import dev.octet.formats.pickle.PickleValue.Text;
import dev.octet.formats.torch.FilePart;
import dev.octet.formats.torch.TorchFile;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What shapes do not tell of a model.
 *
 * @param heads of queries
 * @param groups heads of keys and values
 * @param vocabulary rows of the embedding that are tokens; 0 to keep all, as Megatron pads them, where nothing says how many
 * @param gpt2 whether its tensors are called and turned as GPT-2's, otherwise as Llama's
 * @param from the file that says so
 */
record MegatronSizes(long heads, long groups, long vocabulary, boolean gpt2, Path from) {
    private static final String CONFIG = "config.json";
    private static final String COMMON = "common.pt";
    private static final long MAX_CONFIG_BYTES = 16L << 20;
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Families of transformers whose tensors are called as Llama's. */
    private static final List<String> LIKE_LLAMA = List.of("llama", "mistral", "qwen2", "qwen3");

    /**
     * From the model's {@code config.json} in one of the folders, otherwise from Megatron's own arguments.
     *
     * @throws UnsupportedModelException when neither is there, or the model is of another family
     */
    static MegatronSizes of(List<Path> folders, Path step, OpenFiles files) throws IOException {
        for (Path folder : folders) {
            Path config = folder.resolve(CONFIG);
            if (Files.isRegularFile(config)) {
                return ofConfig(config);
            }
        }
        Path common = step.resolve(COMMON);
        if (Files.isRegularFile(common)
                && TorchFile.open(FilePart.of(files, common)).root() instanceof Dict root
                && root.get("args") instanceof Instance args) {
            return ofArguments(args, common);
        }
        throw new UnsupportedModelException(
                "neither a config.json nor Megatron's arguments say how many heads the model has",
                step.toString(),
                "put the model's config.json of Hugging Face in the folder");
    }

    private static MegatronSizes ofConfig(Path file) throws IOException {
        if (Files.size(file) > MAX_CONFIG_BYTES) {
            throw new MalformedModelException(
                    "config.json is longer than " + MAX_CONFIG_BYTES + " bytes",
                    file.toString(),
                    "put the model's own there");
        }
        byte[] bytes = Files.readAllBytes(file);
        JsonNode config;
        try {
            config = JSON.readTree(bytes);
        } catch (JsonProcessingException e) {
            JsonFault fault = JsonFault.of(e, bytes);
            throw new MalformedModelException(
                    "config.json is not JSON: " + fault.what(),
                    fault.in(file.toString()),
                    "put the model's own there",
                    e);
        }
        String family = config.path("model_type").asText("");
        boolean gpt2 = family.equals("gpt2");
        if (!gpt2 && !LIKE_LLAMA.contains(family)) {
            throw new UnsupportedModelException(
                    "the model's family '" + family + "' is none whose tensors are regrouped from Megatron's",
                    file.toString(),
                    "known are gpt2, " + String.join(", ", LIKE_LLAMA));
        }
        long heads = config.path(gpt2 ? "n_head" : "num_attention_heads").asLong(0);
        long groups = gpt2 ? heads : config.path("num_key_value_heads").asLong(heads);
        return checked(
                new MegatronSizes(heads, groups, config.path("vocab_size").asLong(0), gpt2, file));
    }

    private static MegatronSizes ofArguments(Instance args, Path file) {
        if (args.field("apply_layernorm_1p") instanceof Bool(boolean shifted) && shifted) {
            throw new UnsupportedModelException(
                    "norm weights are stored without the one that is added to them (apply_layernorm_1p)",
                    file.toString(),
                    "convert it with the program that trained it");
        }
        long heads = number(args.field("num_attention_heads"));
        boolean grouped = args.field("group_query_attention") instanceof Bool(boolean g) && g;
        long groups = grouped ? number(args.field("num_query_groups")) : heads;
        boolean learned =
                args.field("position_embedding_type") instanceof Text(String type) && type.equals("learned_absolute");
        // argparse has no vocab_size unless it is given; padded_vocab_size would keep the padding
        return checked(new MegatronSizes(heads, groups, number(args.field("vocab_size")), learned, file));
    }

    private static long number(@Nullable PickleValue value) {
        return value instanceof Int(BigInteger n) && n.bitLength() < Integer.SIZE ? n.longValue() : 0;
    }

    private static MegatronSizes checked(MegatronSizes sizes) {
        if (sizes.heads < 1 || sizes.groups < 1 || sizes.heads % sizes.groups != 0 || sizes.vocabulary < 0) {
            throw new MalformedModelException(
                    sizes.heads + " heads and " + sizes.groups + " of keys and values do not go together",
                    sizes.from.toString(),
                    "put the model's own config.json in the folder");
        }
        return sizes;
    }
}
