package dev.octet.converter.hf;

import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;

/**
 * What can be seen of a transformer in a graph of any origin without knowing its architecture. Zero stands for what is not there.
 *
 * @param rmsNorm whether it normalises by RMSNorm, otherwise by LayerNorm
 * @param normOffset whether normalisations multiply by 1 + weight
 * @param epsilon of its normalisations
 * @param hidden elements of a token between layers
 * @param layers number of attentions
 * @param heads of q
 * @param keyHeads of k and v
 * @param headSize elements of a head
 * @param headNorms whether q and k are normalised head by head
 * @param inner elements of a token within the MLP
 * @param activation of the MLP, by transformers' name
 * @param vocabulary rows of the table that token ids choose from
 * @param positions rows of the table that positions choose from
 * @param types rows of the table that token types choose from
 * @param image height and width of the images it takes; empty for a model of tokens
 * @param patch height and width of the patches it cuts them into
 * @param channels of the images
 * @param outputs number of outputs
 * @param outputRank rank of the first output
 * @param outputWidth last dimension of the first output
 * @param headed whether the first output comes from a Linear, not from a normalisation
 * @param frequencies of rotary positions: radians a position turns each pair by
 * @param window positions that attention sees, where it does not see all
 * @param parameters shapes of constants by the names that transformers gives parameters today, where the exporter kept them
 * @param best numbers of the largest elements that some node looks for, in the order of the graph: choices of routers
 */
public record GraphTraits(
        boolean rmsNorm,
        boolean normOffset,
        double epsilon,
        int hidden,
        int layers,
        int heads,
        int keyHeads,
        int headSize,
        boolean headNorms,
        int inner,
        String activation,
        int vocabulary,
        int positions,
        int types,
        List<Integer> image,
        List<Integer> patch,
        int channels,
        int outputs,
        int outputRank,
        int outputWidth,
        boolean headed,
        List<Float> frequencies,
        OptionalInt window,
        Map<String, Shape> parameters,
        List<Integer> best) {
    public GraphTraits {
        parameters = Map.copyOf(parameters);
        best = List.copyOf(best);
        image = List.copyOf(image);
        patch = List.copyOf(patch);
        frequencies = List.copyOf(frequencies);
    }

    /** Whether experts are among its constants. */
    public boolean hasExperts() {
        return parameters.keySet().stream().anyMatch(n -> n.contains(".experts."));
    }

    /** Whether it takes tokens, not images. */
    boolean ofTokens() {
        return image.isEmpty() && vocabulary > 0;
    }

    /** Whether the output has a number for each word of the vocabulary and token. */
    boolean predictsTokens() {
        return headed && outputRank == 3 && outputWidth == vocabulary;
    }

    /** Whether the output has one row for each sample. */
    boolean classifies() {
        return headed && outputRank == 2;
    }

    /** Whether the output is the last layer's. */
    boolean isBare() {
        return !headed && outputRank == 3 && outputWidth == hidden;
    }
}
