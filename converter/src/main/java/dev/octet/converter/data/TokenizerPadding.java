package dev.octet.converter.data;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A tokenizer's padding of shorter texts in a batch. The defaults apply to a file without padding settings.
 *
 * @param token token id
 * @param type type id
 * @param left whether the padding precedes the text
 */
record TokenizerPadding(long token, long type, boolean left) {
    /** The padding settings of a file. */
    static TokenizerPadding of(byte[] json) throws IOException {
        try (JsonParser p = new JsonFactory().createParser(json)) {
            if (p.nextToken() == JsonToken.START_OBJECT) {
                while (p.nextToken() == JsonToken.FIELD_NAME) {
                    boolean padding = p.currentName().equals("padding");
                    if (p.nextToken() == JsonToken.START_OBJECT && padding) {
                        return read(p);
                    }
                    p.skipChildren();
                }
            }
            return new TokenizerPadding(0, 0, false);
        }
    }

    private static TokenizerPadding read(JsonParser p) throws IOException {
        long token = 0;
        long type = 0;
        boolean left = false;
        while (p.nextToken() == JsonToken.FIELD_NAME) {
            String key = p.currentName();
            p.nextToken();
            switch (key) {
                case "pad_id" -> token = p.getValueAsLong();
                case "pad_type_id" -> type = p.getValueAsLong();
                case "direction" -> left = "Left".equals(p.getText());
                default -> p.skipChildren();
            }
        }
        return new TokenizerPadding(token, type, left);
    }

    /** The texts of a batch, padded to the longest. */
    List<TokenizedText> pad(List<TokenizedText> texts) {
        int length = texts.stream().mapToInt(t -> t.ids().length).max().orElse(0);
        List<TokenizedText> padded = new ArrayList<>(texts.size());
        for (TokenizedText text : texts) {
            padded.add(new TokenizedText(
                    fill(text.ids(), length, token), fill(text.mask(), length, 0), fill(text.types(), length, type)));
        }
        return padded;
    }

    private long[] fill(long[] values, int length, long with) {
        long[] filled = new long[length];
        Arrays.fill(filled, with);
        System.arraycopy(values, 0, filled, left ? length - values.length : 0, values.length);
        return filled;
    }
}
