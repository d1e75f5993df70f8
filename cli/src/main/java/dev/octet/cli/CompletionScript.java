package dev.octet.cli;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.commons.cli.Option;

/** Completion of the verbs and options of a list of commands, for each shell in its language. */
final class CompletionScript {
    private static final String TOP = "--help --version";

    private CompletionScript() {}

    /** The words that the value of an option may be; empty when it is a path, or anything. */
    private static List<String> values(Option option) {
        if (option instanceof ChoiceOption choice) {
            return choice.choices();
        }
        String argument = option.hasArg() ? option.getArgName() : "";
        boolean words = argument.matches("[a-z0-9-]+(\\|[a-z0-9-]+)+"); // as json|plain|none, not cpu|cuda[:N]
        return words ? Arrays.asList(argument.split("\\|", -1)) : List.of();
    }

    private static List<String> names(Option option) {
        String name = "--" + option.getLongOpt();
        return option.getOpt() == null ? List.of(name) : List.of("-" + option.getOpt(), name);
    }

    /** What an option does, without its default: shells show it in one line. */
    private static String summary(Option option) {
        return option.getDescription().replaceFirst(" \\((default|repeatable|must).*", "");
    }

    private static String joined(List<String> words) {
        return String.join(" ", words);
    }

    /** For bash 3.2 or later. Where nothing is offered, bash completes file names. */
    static String bash(List<Command> commands) {
        StringBuilder text = new StringBuilder(
                """
                # Completion of octet in bash, made by: octet completion bash
                _octet() {
                    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=''
                    COMPREPLY=()
                    if [ "$COMP_CWORD" -eq 1 ]; then
                        words='VERBS'
                    else
                        case ${COMP_WORDS[1]} in
                """.replace("VERBS", joined(commands.stream().map(Command::name).toList()) + " " + TOP));
        for (Command command : commands) {
            appendBash(text, command);
        }
        return text.append("""
                        help) words='VERBS' ;;
                    esac
                fi
                [ -z "$words" ] || COMPREPLY=($(compgen -W "$words" -- "$current"))
            }
            complete -o default -F _octet octet
            """.indent(0).replace(
                        "VERBS", joined(commands.stream().map(Command::name).toList())))
                .toString();
    }

    private static void appendBash(StringBuilder text, Command command) {
        String pad = " ".repeat(12);
        text.append(pad).append(command.name()).append(")\n");
        text.append(pad).append("    case $previous in\n");
        for (Option option : Flags.of(command)) {
            if (option.hasArg()) {
                text.append(pad)
                        .append("        ")
                        .append(String.join(" | ", names(option)))
                        .append(") words='")
                        .append(joined(values(option)))
                        .append("' ;;\n");
            }
        }
        String options = Flags.of(command).stream().map(o -> joined(names(o))).collect(Collectors.joining(" "));
        text.append(pad)
                .append("        *) case $current in -*) words='")
                .append(options)
                .append("' ;; *) words='")
                .append(joined(command.operandWords()))
                .append("' ;; esac ;;\n");
        text.append(pad).append("    esac\n").append(pad).append("    ;;\n");
    }

    /** For zsh: a function of the file {@code _octet} in a folder of {@code fpath}, or read by {@code source}. */
    static String zsh(List<Command> commands) {
        StringBuilder text = new StringBuilder("""
            #compdef octet
            # Completion of octet in zsh, made by: octet completion zsh
            _octet() {
                local -a verbs
                verbs=(
            """);
        for (Command command : commands) {
            text.append("        ")
                    .append(quoted(command.name() + ":" + command.summary().replace(":", "\\:")))
                    .append('\n');
        }
        text.append("""
                )
                if (( CURRENT == 2 )); then
                    _describe verb verbs
                    return
                fi
                local verb=$words[2]
                shift words
                (( CURRENT-- ))
                case $verb in
            """);
        for (Command command : commands) {
            text.append("        ").append(command.name()).append(")\n            _arguments");
            for (Option option : Flags.of(command)) {
                for (String name : names(option)) {
                    text.append(" \\\n                ").append(quoted(zshSpec(name, option)));
                }
            }
            String operand = command.operandWords().isEmpty()
                    ? "*:file:_files"
                    : "1:" + command.operands().getFirst() + ":(" + joined(command.operandWords()) + ")";
            text.append(" \\\n                ").append(quoted(operand)).append("\n            ;;\n");
        }
        return text.append("""
                    help) _describe verb verbs ;;
                esac
            }
            if [ "$funcstack[1]" = _octet ]; then
                _octet "$@"
            else
                compdef _octet octet
            fi
            """).toString();
    }

    private static String zshSpec(String name, Option option) {
        String spec = (isRepeatable(option) ? "*" : "") + name + "["
                + summary(option).replaceAll("[\\\\\\[\\]:]", "\\\\$0") + "]";
        if (!option.hasArg()) {
            return spec;
        }
        List<String> values = values(option);
        String action = values.isEmpty() ? option instanceof PathOption ? "_files" : " " : "(" + joined(values) + ")";
        return spec + ":" + option.getArgName().replaceAll("[\\\\:]", "\\\\$0") + ":" + action;
    }

    private static boolean isRepeatable(Option option) {
        return option.getDescription().endsWith("(repeatable)");
    }

    /** In single quotes, as bash and zsh read them. */
    private static String quoted(String text) {
        return "'" + text.replace("'", "'\\''") + "'";
    }

    /** For fish. */
    static String fish(List<Command> commands) {
        StringBuilder text = new StringBuilder("# Completion of octet in fish, made by: octet completion fish\n");
        for (Command command : commands) {
            text.append("complete -c octet -f -n __fish_use_subcommand -a ")
                    .append(command.name())
                    .append(" -d ")
                    .append(fishQuoted(command.summary()))
                    .append('\n');
        }
        for (Command command : commands) {
            String start = "complete -c octet -n '__fish_seen_subcommand_from " + command.name() + "'";
            if (!command.operandWords().isEmpty()) {
                text.append(start)
                        .append(" -f -a ")
                        .append(fishQuoted(joined(command.operandWords())))
                        .append('\n');
            }
            for (Option option : Flags.of(command)) {
                text.append(start).append(" -l ").append(option.getLongOpt());
                if (option.getOpt() != null) {
                    text.append(" -s ").append(option.getOpt());
                }
                if (option instanceof PathOption) {
                    text.append(" -r -F");
                } else if (option.hasArg()) {
                    text.append(" -x");
                    if (!values(option).isEmpty()) {
                        text.append(" -a ").append(fishQuoted(joined(values(option))));
                    }
                }
                text.append(" -d ").append(fishQuoted(summary(option))).append('\n');
            }
        }
        return text.toString();
    }

    private static String fishQuoted(String text) {
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'";
    }
}
