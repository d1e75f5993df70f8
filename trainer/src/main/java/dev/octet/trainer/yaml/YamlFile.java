package dev.octet.trainer.yaml;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.dataformat.yaml.YAMLFactory;
import com.fasterxml.jackson.dataformat.yaml.YAMLParser;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.yaml.Entry.Scalar;
import dev.octet.trainer.yaml.Entry.Sequence;
import java.io.IOException;
import java.nio.charset.MalformedInputException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads a YAML file with one mapping. Duplicate keys, aliases and multiple documents are rejected. */
public final class YamlFile {
    /** Maximum nesting depth. */
    private static final int MAX_DEPTH = 16;

    /** Maximum file size: the file is read as a whole. */
    private static final long MAX_BYTES = 1 << 20;

    private static final YAMLFactory YAML = new YAMLFactory();

    private final String name;
    private final YAMLParser parser;

    private YamlFile(String name, YAMLParser parser) {
        this.name = name;
        this.parser = parser;
    }

    /**
     * Reads a file.
     *
     * @throws InvalidOptionException when it is not YAML, not a mapping, or has duplicate keys
     * @throws IOException when the file cannot be read
     */
    public static Section read(Path file) throws IOException {
        if (Files.size(file) > MAX_BYTES) {
            throw new InvalidOptionException(
                    "the configuration has " + Files.size(file) + " bytes, but the limit is " + MAX_BYTES,
                    file.toString(),
                    "give the YAML file, not the data");
        }
        try {
            return parse(Files.readString(file), file.toString());
        } catch (MalformedInputException e) {
            throw new InvalidOptionException("the file is not UTF-8 text", file.toString(), "save it as UTF-8", e);
        }
    }

    /**
     * Reads text.
     *
     * @param name file name, for messages
     * @throws InvalidOptionException as in {@link #read}
     */
    public static Section parse(String text, String name) {
        try (YAMLParser parser = YAML.createParser(text)) {
            return new YamlFile(name, parser).document();
        } catch (JsonProcessingException e) {
            int line = e.getLocation() == null ? 1 : e.getLocation().getLineNr();
            throw new InvalidOptionException(
                    "not YAML: " + firstLine(e.getOriginalMessage()),
                    name + ", line " + line,
                    "correct the line: indent with spaces, and put a space after each colon",
                    e);
        } catch (IOException e) {
            throw new IllegalStateException("text in memory cannot fail to be read", e);
        }
    }

    /**
     * Reads one value: a number or text, or a list or mapping in brackets or braces.
     *
     * @param key that it is given to, dotted
     * @param origin where it was given, for messages
     * @throws InvalidOptionException when it is not YAML
     */
    static Entry value(String text, String key, String origin) {
        try (YAMLParser parser = YAML.createParser(text)) {
            YamlFile one = new YamlFile(origin, parser);
            Entry entry = parser.nextToken() == null ? new Scalar(1, "", Section.Kind.NULL) : one.entry(key, 0);
            if (parser.nextToken() != null) {
                throw one.refused("there is more than one value", "write one value");
            }
            return entry;
        } catch (JsonProcessingException e) {
            throw new InvalidOptionException(
                    "not YAML: " + firstLine(e.getOriginalMessage()),
                    origin,
                    "write a value as in the file, quoted",
                    e);
        } catch (IOException e) {
            throw new IllegalStateException("text in memory cannot fail to be read", e);
        }
    }

    private static String firstLine(String message) {
        return message.lines().findFirst().orElse("");
    }

    private Section document() throws IOException {
        if (parser.nextToken() != JsonToken.START_OBJECT) {
            throw refused("the file holds no keys and values", "write lines of 'key: value'");
        }
        Section section = mapping("", 1);
        if (parser.nextToken() != null) {
            throw refused("the file has more than one document", "write one document only");
        }
        return section;
    }

    private Section mapping(String path, int depth) throws IOException {
        if (depth > MAX_DEPTH) {
            throw refused("more than " + MAX_DEPTH + " levels", "write a flatter configuration");
        }
        int line = line();
        Map<String, Entry> entries = new LinkedHashMap<>();
        Map<String, Integer> lines = new LinkedHashMap<>();
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            String key = parser.currentName();
            Integer earlier = lines.put(key, line());
            if (earlier != null) {
                throw refused("key '" + key + "' is already given in line " + earlier, "keep one of them");
            }
            parser.nextToken();
            entries.put(key, entry(path.isEmpty() ? key : path + "." + key, depth));
        }
        return new Section(name, path, line, entries, lines);
    }

    private Entry entry(String path, int depth) throws IOException {
        if (parser.isCurrentAlias()) {
            throw refused("aliases are not supported", "write the value out");
        }
        JsonToken token = parser.currentToken();
        return switch (token) {
            case START_OBJECT -> mapping(path, depth + 1);
            case START_ARRAY -> sequence(path, depth + 1);
            case VALUE_NULL -> new Scalar(line(), "", Section.Kind.NULL);
            case VALUE_TRUE, VALUE_FALSE -> new Scalar(line(), parser.getText(), Section.Kind.FLAG);
            case VALUE_NUMBER_INT, VALUE_NUMBER_FLOAT -> new Scalar(line(), parser.getText(), Section.Kind.NUMBER);
            default -> new Scalar(line(), parser.getText(), Section.Kind.TEXT);
        };
    }

    private Sequence sequence(String path, int depth) throws IOException {
        int line = line();
        List<Entry> entries = new ArrayList<>();
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            entries.add(entry(path + "[" + entries.size() + "]", depth));
        }
        return new Sequence(line, entries);
    }

    private int line() {
        return ((JsonParser) parser).currentTokenLocation().getLineNr();
    }

    private InvalidOptionException refused(String what, String fix) {
        return new InvalidOptionException(what, name + ", line " + line(), fix);
    }
}
