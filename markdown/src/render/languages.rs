//! Highlighted languages: their names, and the syntax of comments, strings and keywords.

#[derive(Debug)]
pub(super) struct Language {
    /// Names before a code block, in lower case.
    names: &'static [&'static str],
    /// Separated by spaces.
    keywords: &'static str,
    /// Whether keywords may have any case.
    is_case_insensitive: bool,
    /// Start of a comment up to the end of the line.
    pub(super) line_comments: &'static [&'static str],
    /// Start and end of a comment.
    pub(super) block_comments: &'static [(&'static str, &'static str)],
    /// Quotes of single-line strings; a backslash escapes the next character.
    pub(super) quotes: &'static [char],
    /// Quotes of multi-line strings.
    pub(super) long_quotes: &'static [&'static str],
    /// Whether `'` quotes a single character, and has other meanings elsewhere.
    pub(super) has_characters: bool,
    /// Whether `<name` starts a tag.
    pub(super) has_tags: bool,
}

/// Base of all languages: only strings in double quotes.
const PLAIN: Language = Language {
    names: &[],
    keywords: "",
    is_case_insensitive: false,
    line_comments: &[],
    block_comments: &[],
    quotes: &['"'],
    long_quotes: &[],
    has_characters: false,
    has_tags: false,
};
/// Comments as in C, strings in both quotes.
const C_LIKE: Language =
    Language { line_comments: &["//"], block_comments: &[("/*", "*/")], quotes: &['"', '\''], ..PLAIN };
/// Comments start with `#`, strings in both quotes.
const SCRIPT: Language = Language { line_comments: &["#"], quotes: &['"', '\''], ..PLAIN };

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move \
             mut pub ref return self Self static struct super trait true type unsafe use where while",
        quotes: &['"'],
        has_characters: true,
        ..C_LIKE
    },
    Language {
        names: &["go", "golang"],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import interface iota \
             map nil package range return select struct switch true type var",
        long_quotes: &["`"],
        ..C_LIKE
    },
    Language {
        names: &["c", "h", "cpp", "c++", "cc", "cxx", "hpp", "objc", "objective-c", "arduino"],
        keywords: "alignas alignof asm auto bool break case catch char class const constexpr continue co_await co_return co_yield \
             decltype default delete do double else enum explicit extern false float for friend goto if inline int long \
             mutable namespace new noexcept nullptr operator override private protected public register restrict return short \
             signed sizeof static static_assert struct switch template this throw true try typedef typename union unsigned \
             using virtual void volatile while",
        ..C_LIKE
    },
    Language {
        names: &["java", "kotlin", "kt", "kts", "scala", "groovy", "gradle"],
        keywords: "abstract as assert boolean break byte case catch char class companion const continue data def default do double \
             else enum extends false final finally float for fun if implements import in instanceof int interface internal is \
             lateinit lazy long match native new null object open override package private protected public record return \
             sealed short static super suspend switch synchronized this throw throws trait true try typealias val var void \
             volatile when while with yield",
        long_quotes: &["\"\"\""],
        ..C_LIKE
    },
    Language {
        names: &["csharp", "cs", "c#", "fsharp", "f#", "swift", "dart", "zig", "d"],
        keywords: "abstract as async await base bool break byte case catch char class comptime const continue default defer \
             delegate do double else enum errdefer event extension extends false final finally float fn for foreach func get \
             guard if implements import in init int interface internal is late let lock long mixin mutable namespace new nil \
             null object operator out override params private protected protocol pub public readonly record ref return sealed \
             self set short static string struct super switch this throw true try typealias typeof using var virtual void \
             when where while with yield",
        long_quotes: &["\"\"\""],
        ..C_LIKE
    },
    Language {
        names: &["javascript", "js", "jsx", "mjs", "cjs", "typescript", "ts", "tsx", "svelte"],
        keywords: "abstract any as async await boolean break case catch class const continue debugger declare default delete do \
             else enum export extends false finally for from function get if implements import in instanceof interface keyof \
             let namespace new null number of private protected public readonly return satisfies set static string super \
             switch this throw true try type typeof undefined unknown var void while with yield",
        long_quotes: &["`"],
        ..C_LIKE
    },
    Language {
        names: &["php", "proto", "protobuf", "graphql", "gql", "hcl", "terraform", "tf"],
        keywords: "abstract and array as bool break case catch class clone const continue default do double echo else elseif enum \
             extends false final finally fn for foreach function global if implements import input instanceof interface int32 \
             int64 match message module mutation namespace new null oneof option or output package private protected provider \
             public query readonly repeated require resource return returns rpc scalar service static stream string \
             subscription switch syntax throw trait true try type union use var variable while yield",
        line_comments: &["//", "#"],
        ..C_LIKE
    },
    Language {
        names: &["python", "py", "python3", "pyi", "starlark", "bzl"],
        keywords: "and as assert async await break case class continue def del elif else except False finally for from global if \
             import in is lambda match None nonlocal not or pass raise return True try while with yield",
        long_quotes: &["\"\"\"", "'''"],
        ..SCRIPT
    },
    Language {
        names: &["ruby", "rb", "elixir", "ex", "exs", "crystal", "perl", "pl", "r", "julia", "jl", "nim", "nix"],
        keywords: "alias and assert begin break case class cond def defmodule defp do else elsif end ensure false fn for foreach \
             function if in inherit let local loop macro module my next nil not null or our package proc raise rec redo \
             require rescue retry return self struct sub super then true undef unless until use using var when while with \
             yield",
        ..SCRIPT
    },
    Language {
        names: &[
            "shell",
            "sh",
            "bash",
            "zsh",
            "fish",
            "console",
            "shellsession",
            "make",
            "makefile",
            "dockerfile",
            "docker",
            "cmake",
        ],
        keywords: "break case continue do done elif else endif esac eval exec exit export fi for function if ifdef ifeq in include \
             local readonly return set shift source then trap unset until while ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM \
             HEALTHCHECK LABEL RUN USER VOLUME WORKDIR",
        ..SCRIPT
    },
    Language {
        names: &["yaml", "yml", "toml", "ini", "conf", "properties", "gitconfig", "editorconfig", "systemd"],
        keywords: "true false null yes no on off",
        line_comments: &["#", ";"],
        long_quotes: &["\"\"\"", "'''"],
        ..SCRIPT
    },
    Language { names: &["json", "jsonc", "json5"], keywords: "true false null", quotes: &['"'], ..C_LIKE },
    Language {
        names: &["lua", "haskell", "hs", "ada", "vhdl", "elm"],
        keywords: "and begin break case class data deriving do else elseif end exposing false for function goto if import in infix \
             instance is let local loop module newtype nil not of or procedure qualified repeat return then true type until \
             where while",
        line_comments: &["--"],
        block_comments: &[("--[[", "]]"), ("{-", "-}")],
        ..C_LIKE
    },
    Language {
        names: &["sql", "mysql", "postgresql", "postgres", "psql", "plpgsql", "sqlite"],
        keywords: "add all alter analyze and as asc begin between bigint boolean by cascade case check column commit conflict \
             constraint create cross current_timestamp default delete desc distinct do drop else end except exists explain \
             false fetch for foreign from full function grant group having if in index inner insert int integer intersect \
             into is join key left like limit not nothing null offset on or order outer over partition primary references \
             returning returns revoke right rollback select set table text then to transaction trigger true truncate union \
             unique update using values varchar view when where with",
        is_case_insensitive: true,
        line_comments: &["--"],
        ..C_LIKE
    },
    Language {
        names: &["css", "scss", "less", "sass"],
        keywords: "important import media keyframes supports include mixin extend from to",
        line_comments: &[],
        ..C_LIKE
    },
    Language {
        names: &["html", "xml", "svg", "xhtml", "vue", "rss", "plist"],
        block_comments: &[("<!--", "-->")],
        quotes: &['"', '\''],
        has_tags: true,
        ..PLAIN
    },
];

/// Names of files, and the ends of names, whose language has another name.
const FILES: &[(&str, &str)] = &[
    (".bash_profile", "sh"),
    (".bashrc", "sh"),
    (".gitignore", "conf"),
    (".gitmodules", "gitconfig"),
    (".profile", "sh"),
    ("cargo.lock", "toml"),
    ("cmakelists.txt", "cmake"),
    ("containerfile", "dockerfile"),
    ("gemfile", "ruby"),
    ("go.mod", "go"),
    ("jenkinsfile", "groovy"),
    ("justfile", "make"),
    ("rakefile", "ruby"),
];
const ENDINGS: &[(&str, &str)] = &[
    ("cfg", "conf"),
    ("cts", "ts"),
    ("env", "sh"),
    ("htm", "html"),
    ("hh", "hpp"),
    ("ksh", "sh"),
    ("m", "objc"),
    ("mk", "make"),
    ("mm", "objc"),
    ("mts", "ts"),
    ("pm", "perl"),
    ("service", "systemd"),
    ("xsl", "xml"),
];

impl Language {
    /// Finds the language of a file by its name.
    pub(super) fn of_file(name: &str) -> Option<&'static Self> {
        let name = name.to_ascii_lowercase();
        let ending = name.rsplit('.').next().unwrap_or(&name);
        let alias = |list: &[(&str, &'static str)], name: &str| {
            list.iter().find(|(file, _)| *file == name).map(|(_, language)| *language)
        };
        Self::find(alias(FILES, &name).or_else(|| alias(ENDINGS, ending)).unwrap_or(ending))
    }

    pub(super) fn find(name: &str) -> Option<&'static Self> {
        LANGUAGES.iter().find(|language| language.names.contains(&name))
    }

    pub(super) fn is_keyword(&self, word: &str) -> bool {
        let mut keywords = self.keywords.split(' ');
        if self.is_case_insensitive {
            keywords.any(|keyword| keyword.eq_ignore_ascii_case(word))
        } else {
            keywords.any(|keyword| keyword == word)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn files_have_the_languages_of_their_names() {
        for (file, language) in [
            ("main.rs", "rust"),
            ("Makefile", "make"),
            ("CMakeLists.txt", "cmake"),
            (".editorconfig", "ini"),
            ("A.HTM", "html"),
        ] {
            assert!(std::ptr::eq(Language::of_file(file).unwrap(), Language::find(language).unwrap()), "{file}");
        }
        assert!(Language::of_file("notes.txt").is_none() && Language::of_file("").is_none());
        assert!(FILES.iter().chain(ENDINGS).all(|(_, language)| Language::find(language).is_some()));
    }

    #[test]
    fn every_name_is_of_one_language() {
        let names: Vec<_> = LANGUAGES.iter().flat_map(|language| language.names).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(names.iter().all(|name| **name == name.to_ascii_lowercase()));
    }
}
