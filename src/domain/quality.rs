//! Quality values, the weights of a client's preferences (RFC 9110 §12.4.2). Pure.

/// Parses the parameters of an element, such as `q=0.5`. Returns the quality value in thousandths:
/// 1000 without parameters, `None` if they are not one well-formed quality value.
pub fn quality_value(parameters: &str) -> Option<u16> {
    let parameters = parameters.trim();
    if parameters.is_empty() {
        return Some(1000);
    }
    let (name, value) = parameters.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let (whole, fraction) = value.trim().split_once('.').unwrap_or((value.trim(), ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{fraction:0<3}").parse::<u16>().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::quality_value;

    #[test]
    fn quality_values_have_up_to_three_decimals_between_zero_and_one() {
        for (parameters, value) in [
            ("", Some(1000)),
            (" ", Some(1000)),
            ("q=0", Some(0)),
            ("q=0.", Some(0)),
            ("Q = 0.5", Some(500)),
            ("q=0.001", Some(1)),
            ("q=1", Some(1000)),
            ("q=1.000", Some(1000)),
            ("q=1.001", None),
            ("q=2", None),
            ("q=-1", None),
            ("q=0.1234", None),
            ("q=0.+1", None),
            ("q=", None),
            ("level=1", None),
            ("q=0.5;level=1", None),
        ] {
            assert_eq!(quality_value(parameters), value, "{parameters:?}");
        }
    }
}
